// SPDX-License-Identifier: MIT
#include "sample/named_functions.h"

#include <utility>

#include "base/check.h"
#include "base/file_name.h"
#include "base/log.h"
#include "profile/compare/limit_rule.h"
#include "profile/compare/limit_subjects.h"
#include "sample/module_files.h"

namespace shadowprof::sample {
namespace {

constexpr uint16_t bit(size_t pattern) {
  return static_cast<uint16_t>(1u << pattern);
}

bool means_module(const FunctionPattern& pattern, const std::string& path) {
  return pattern.module.empty() || profile::matches_glob(pattern.module, file_name(path)) ||
         profile::matches_glob(pattern.module, path);
}

// The linkage stub of a function is named after it, and is another one.
bool names(const FunctionPattern& pattern, const symbols::Symbol& function) {
  const bool stub = function.name.ends_with("@plt") && !pattern.function.ends_with("@plt");
  return !stub && profile::names_function(pattern.function, function.name, function.linkage_name);
}

}  // namespace

FunctionPattern FunctionPattern::from(const std::string& text) {
  // An operator's name may have this sign, too, but not behind a module's.
  const size_t sign = text.starts_with("operator") ? std::string::npos : text.find('!');
  if (sign == std::string::npos) return {"", text};
  return {text.substr(0, sign), text.substr(sign + 1)};
}

NamedFunctions::NamedFunctions(const trace::BlockTable& table,
                               std::vector<FunctionPattern> patterns, int64_t started)
    : table_(table), patterns_(std::move(patterns)), started_(started) {
  SP_CHECK(patterns_.size() <= kMostPatterns, "{} patterns of functions", patterns_.size());
  for (size_t p = 0; p < patterns_.size(); p++)
    if (!patterns_[p].function.empty()) named_ |= bit(p);
  for (size_t p = 0; p < patterns_.size(); p++)
    if (patterns_[p].asks_for_lines) lined_ |= bit(p);
}

void NamedFunctions::load_module(ModuleId id) {
  Module& named = modules_.emplace_back();
  const trace::Module& module = table_.module(id);
  for (size_t p = 0; p < patterns_.size(); p++)
    if (means_module(patterns_[p], module.path)) named.meant |= bit(p);
  if ((named.meant & (named_ | lined_)) == 0) return;
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
  named.functions.resize(named.symbols->function_count());
  named.first_function = functions_ + 1;
  functions_ += static_cast<uint32_t>(named.functions.size());
}

uint64_t NamedFunctions::offset_of(const trace::Block& block) const {
  return static_cast<uint64_t>(block.start - table_.module(block.module).file_start);
}

const NamedFunctions::Function& NamedFunctions::look_at(Module& module, size_t index) const {
  std::optional<Function>& known = module.functions[index];
  if (known) return *known;
  const symbols::Symbol symbol = module.symbols->function(index);
  known = Function{.offset = symbol.offset};
  for (size_t p = 0; p < patterns_.size(); p++)
    if ((named_ & module.meant & bit(p)) != 0 && names(patterns_[p], symbol))
      known->patterns |= bit(p);
  return *known;
}

NamedFunctions::Found NamedFunctions::find(const trace::Block& block) {
  while (modules_.size() <= block.module.value)
    load_module(ModuleId(static_cast<uint32_t>(modules_.size())));
  Module& module = modules_[block.module.value];
  Found found{.patterns = static_cast<uint16_t>(module.meant & ~named_)};
  if (module.symbols == nullptr) return found;
  const uint64_t offset = offset_of(block);
  const auto index = module.symbols->function_index(offset);
  if (!index) return found;
  const Function& function = look_at(module, *index);
  found.patterns |= function.patterns;
  found.function = module.first_function + static_cast<uint32_t>(*index);
  found.is_entry = function.patterns != 0 && function.offset == offset;
  return found;
}

std::optional<NamedFunctions::Line> NamedFunctions::line_of(const trace::Block& block,
                                                            GuestAddr insn) const {
  const Module& module = modules_[block.module.value];
  if (module.symbols == nullptr) return std::nullopt;
  const auto within = static_cast<uint64_t>(insn - block.start);
  const auto frames = module.symbols->lines(offset_of(block) + within);
  if (frames.empty() || frames.front().line == 0) return std::nullopt;
  return Line{frames.front().file, frames.front().line};
}

std::string NamedFunctions::name_of(const trace::Block& block) const {
  const Module& module = modules_[block.module.value];
  return module.symbols->find(offset_of(block)).value_or(symbols::Symbol()).name;
}

}  // namespace shadowprof::sample
