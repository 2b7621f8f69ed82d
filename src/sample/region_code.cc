// SPDX-License-Identifier: MIT
#include "sample/region_code.h"

#include "base/log.h"
#include "profile/compare/limit_rule.h"
#include "profile/compare/limit_subjects.h"
#include "sample/module_files.h"

namespace shadowprof::sample {

RegionCode::RegionCode(const trace::BlockTable& table, const RegionRequest& request,
                       int64_t started)
    : table_(table), function_(request.text), started_(started) {
  // An operator's name may have this sign, too, but not behind a module's.
  const size_t sign = request.text.find('!');
  if (sign == std::string::npos || request.text.starts_with("operator")) return;
  module_ = request.text.substr(0, sign);
  function_ = request.text.substr(sign + 1);
}

void RegionCode::load_module(ModuleId id) {
  NamedModule& named = modules_.emplace_back();
  const trace::Module& module = table_.module(id);
  if (!module_.empty() && !profile::matches_glob(module_, profile::shown_module(module.path)) &&
      !profile::matches_glob(module_, module.path))
    return;
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
  named.wanted.resize(named.symbols->function_count());
}

// The linkage stub of a function is named after it, and is another one.
bool RegionCode::wants(const symbols::Symbol& function) {
  const bool stub = function.name.ends_with("@plt") && !function_.ends_with("@plt");
  return !stub && profile::names_function(function_, function.name, function.linkage_name);
}

bool RegionCode::is_entry(const trace::Block& block) {
  while (modules_.size() <= block.module.value)
    load_module(ModuleId(static_cast<uint32_t>(modules_.size())));
  NamedModule& named = modules_[block.module.value];
  if (named.symbols == nullptr) return false;
  const auto offset =
      static_cast<uint64_t>(block.start - table_.module(block.module).file_start);
  const auto index = named.symbols->function_index(offset);
  if (!index || named.wanted[*index] == false) return false;
  const symbols::Symbol function = named.symbols->function(*index);
  named.wanted[*index] = wants(function);
  if (!*named.wanted[*index] || function.offset != offset) return false;
  functions_.insert(function.name);
  return true;
}

void RegionCode::look() {
  for (; looked_at_ < table_.block_count(); looked_at_++) {
    const auto id = static_cast<uint32_t>(looked_at_);
    if (is_entry(table_.block(BlockId(id)))) entries_[id] = 1;
  }
}

}  // namespace shadowprof::sample
