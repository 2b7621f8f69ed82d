// SPDX-License-Identifier: MIT
#include "sample/region_code.h"

#include "base/log.h"
#include "profile/compare/limit_rule.h"
#include "profile/compare/limit_subjects.h"
#include "sample/module_files.h"

namespace shadowprof::sample {

RegionCode::RegionCode(const trace::BlockTable& table, const RegionRequest& request,
                       int64_t started)
    : table_(table), started_(started) {
  if (request.kind() == collect::RegionKind::between) {
    add_pattern(request.from, collect::kOpensRegion);
    add_pattern(request.to, collect::kClosesRegion);
  } else {
    add_pattern(request.within, collect::kOpensRegion);
  }
}

// An operator's name may have this sign, too, but not behind a module's.
void RegionCode::add_pattern(const std::string& text, uint8_t does) {
  const size_t sign = text.starts_with("operator") ? std::string::npos : text.find('!');
  if (sign == std::string::npos)
    patterns_.push_back({"", text, does});
  else
    patterns_.push_back({text.substr(0, sign), text.substr(sign + 1), does});
}

void RegionCode::load_module(ModuleId id) {
  NamedModule& named = modules_.emplace_back();
  const trace::Module& module = table_.module(id);
  for (const Pattern& pattern : patterns_) {
    if (pattern.module.empty() ||
        profile::matches_glob(pattern.module, profile::shown_module(module.path)) ||
        profile::matches_glob(pattern.module, module.path))
      named.patterns.push_back(&pattern);
  }
  if (named.patterns.empty()) return;
  profile::Module file;
  file.path = module.path;
  file.inode = module.inode;
  file.device = module.device;
  UniqueFd opened;
  auto symbols = load_symbols(file, table_, started_, notes_, opened);
  if (!symbols) {
    if (!module.path.empty()) detail("{}", symbols.error().message);
    return;
  }
  named.symbols = std::move(*symbols);
  named.does.resize(named.symbols->function_count());
}

// The linkage stub of a function is named after it, and is another one.
uint8_t RegionCode::at_entry_of(const symbols::Symbol& function, const NamedModule& named) {
  uint8_t does = 0;
  for (const Pattern* pattern : named.patterns) {
    const bool stub = function.name.ends_with("@plt") && !pattern->function.ends_with("@plt");
    if (!stub && profile::names_function(pattern->function, function.name, function.linkage_name))
      does |= pattern->does;
  }
  return does;
}

uint8_t RegionCode::at_entry(const trace::Block& block) {
  while (modules_.size() <= block.module.value)
    load_module(ModuleId(static_cast<uint32_t>(modules_.size())));
  NamedModule& named = modules_[block.module.value];
  if (named.symbols == nullptr) return 0;
  const auto offset =
      static_cast<uint64_t>(block.start - table_.module(block.module).file_start);
  const auto index = named.symbols->function_index(offset);
  if (!index || named.does[*index] == 0) return 0;
  const symbols::Symbol function = named.symbols->function(*index);
  const uint8_t does = at_entry_of(function, named);
  named.does[*index] = does;
  if (does == 0 || function.offset != offset) return 0;
  functions_.insert(function.name);
  return does;
}

void RegionCode::look() {
  for (; looked_at_ < table_.block_count(); looked_at_++) {
    const auto id = static_cast<uint32_t>(looked_at_);
    if (const uint8_t does = at_entry(table_.block(BlockId(id))); does != 0) entries_[id] = does;
  }
}

}  // namespace shadowprof::sample
