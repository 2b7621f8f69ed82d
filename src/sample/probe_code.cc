// SPDX-License-Identifier: MIT
#include "sample/probe_code.h"

#include "base/log.h"
#include "profile/compare/limit_rule.h"
#include "profile/compare/limit_subjects.h"
#include "sample/module_files.h"

namespace shadowprof::sample {
namespace {

bool means_module(const collect::ProbePattern& pattern, const std::string& path) {
  return pattern.module.empty() ||
         profile::matches_glob(pattern.module, profile::shown_module(path)) ||
         profile::matches_glob(pattern.module, path);
}

bool names_one(const collect::ProbePattern& pattern) {
  return !pattern.function.empty() && (pattern.entry || pattern.function != "*");
}

}  // namespace

ProbeCode::ProbeCode(const trace::BlockTable& table, std::vector<collect::Probe> probes,
                     int64_t started)
    : table_(table), probes_(std::move(probes)), started_(started) {
  for (size_t p = 0; p < probes_.size(); p++) {
    const auto bit = static_cast<uint16_t>(1u << p);
    if (names_one(probes_[p].pattern)) named_ |= bit;
    if (probes_[p].pattern.entry) of_entries_ |= bit;
  }
}

void ProbeCode::load_module(ModuleId id) {
  NamedModule& named = modules_.emplace_back();
  const trace::Module& module = table_.module(id);
  for (size_t p = 0; p < probes_.size(); p++)
    if (means_module(probes_[p].pattern, module.path))
      named.meant |= static_cast<uint16_t>(1u << p);
  if ((named.meant & named_) == 0) return;
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
  named.first_function = functions_ + 1;
  functions_ += static_cast<uint32_t>(named.wanted.size());
}

uint16_t ProbeCode::wanting(NamedModule& module, uint64_t function) {
  std::optional<uint16_t>& known = module.wanted[function];
  if (known) return *known;
  const symbols::Symbol symbol = module.symbols->function(static_cast<uint32_t>(function));
  uint16_t wanted = 0;
  for (size_t p = 0; p < probes_.size(); p++) {
    const auto bit = static_cast<uint16_t>(1u << p);
    const std::string& name = probes_[p].pattern.function;
    if ((named_ & module.meant & bit) == 0) continue;
    // The linkage stub of a function is named after it, and is another one.
    const bool stub = symbol.name.ends_with("@plt") && !name.ends_with("@plt");
    if (!stub && profile::names_function(name, symbol.name, symbol.linkage_name)) wanted |= bit;
  }
  known = wanted;
  return wanted;
}

void ProbeCode::meet(BlockId id) {
  if (met_.size() <= id.value) met_.resize(std::max<size_t>(id.value + 1, met_.size() * 2));
  if (met_[id.value]) return;
  met_[id.value] = true;
  const trace::Block& block = table_.block(id);
  while (modules_.size() <= block.module.value)
    load_module(ModuleId(static_cast<uint32_t>(modules_.size())));
  NamedModule& module = modules_[block.module.value];
  auto within = static_cast<uint16_t>(module.meant & ~named_);
  uint16_t entries = 0;
  if (module.symbols != nullptr) {
    const auto offset = static_cast<uint64_t>(block.start - table_.module(block.module).file_start);
    if (const auto index = module.symbols->function_index(offset)) {
      const uint16_t wanted = wanting(module, *index);
      within |= wanted;
      code_->function[id.value] = module.first_function + static_cast<uint32_t>(*index);
      const bool begins = (wanted & of_entries_) != 0 &&
                          module.symbols->function(static_cast<uint32_t>(*index)).offset == offset;
      if (begins) entries = wanted & of_entries_;
    }
  }
  code_->within[id.value] = static_cast<uint16_t>(within & ~of_entries_);
  code_->entries[id.value] = entries;
}

trace::CaptureWish ProbeCode::wish(BlockId block, const decoder::Insn& insn, bool first) {
  trace::CaptureWish all;
  const auto within = code_->within[block.value];
  const auto entries = first ? code_->entries[block.value] : uint16_t{0};
  for (size_t p = 0; p < probes_.size() && (within | entries) != 0; p++) {
    const bool there = ((within | entries) >> p & 1) != 0;
    if (!there || !collect::matches(probes_[p].pattern, insn)) continue;
    const trace::CaptureWish wish = collect::wish_of(probes_[p], insn);
    all.registers |= wish.registers;
    all.addresses |= wish.addresses;
    all.results |= wish.results;
    all.divisor |= wish.divisor;
  }
  return all;
}

}  // namespace shadowprof::sample
