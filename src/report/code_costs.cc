// SPDX-License-Identifier: MIT
#include "report/code_costs.h"

#include <map>
#include <span>
#include <tuple>

#include "decoder/insn.h"

namespace shadowprof::report {

using profile::BlockCount;
using profile::CodeRef;
using profile::Interruption;

CodeCosts::CodeCosts(const profile::Profile& profile, const symbols::ModuleSet& modules)
    : profile_(profile), modules_(modules) {
  const auto& interruptions = profile.tables.interruptions;
  first_interruption_.reserve(profile.tables.blocks.size() + 1);
  size_t next = 0;
  for (size_t block = 0; block <= profile.tables.blocks.size(); block++) {
    while (next < interruptions.size() && interruptions[next].block < block) next++;
    first_interruption_.push_back(static_cast<uint32_t>(next));
  }
}

std::vector<InsnCost> CodeCosts::instructions(size_t block) const {
  const BlockCount& b = profile_.tables.blocks[block];
  const std::vector<uint8_t> code = modules_.code(b.at, b.size);
  if (code.size() != b.size) return {};
  std::vector<InsnCost> result;
  result.reserve(b.insns);
  std::span<const uint8_t> rest = code;
  while (!rest.empty()) {
    const uint64_t offset = b.at.offset + (b.size - rest.size());
    const decoder::Insn insn = decoder::decode(rest, GuestAddr(offset));
    if (insn.length == 0) return {};
    result.push_back({{b.at.module, offset}, insn.length, b.count});
    rest = rest.subspan(insn.length);
  }
  if (result.size() != b.insns) return {};
  for (size_t i = first_interruption_[block]; i < first_interruption_[block + 1]; i++) {
    const Interruption& x = profile_.tables.interruptions[i];
    for (size_t k = x.executed; k < result.size(); k++) result[k].count -= x.count;
  }
  return result;
}

uint64_t CodeCosts::executed(size_t block) const {
  const BlockCount& b = profile_.tables.blocks[block];
  uint64_t sum = b.count * b.insns;
  for (size_t i = first_interruption_[block]; i < first_interruption_[block + 1]; i++) {
    const Interruption& x = profile_.tables.interruptions[i];
    sum -= x.count * (b.insns - x.executed);
  }
  return sum;
}

std::vector<profile::LineCost> line_costs(const profile::Profile& profile,
                                          const symbols::ModuleSet& modules) {
  const CodeCosts costs(profile, modules);
  std::map<std::tuple<uint32_t, std::string, uint32_t>, uint64_t> sums;
  for (size_t block = 0; block < profile.tables.blocks.size(); block++) {
    const CodeRef at = profile.tables.blocks[block].at;
    const profile::Function* f = find_function(profile.functions, at);
    if (f == nullptr || modules.find(at.module) == nullptr || f->file.empty()) continue;
    const auto function = static_cast<uint32_t>(f - profile.functions.data());
    for (const InsnCost& insn : costs.instructions(block))
      if (const auto line = modules.line(insn.at))
        sums[{function, line->file, line->line}] += insn.count;
  }
  std::vector<profile::LineCost> result;
  for (const auto& [key, count] : sums)
    result.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  return result;
}

}  // namespace shadowprof::report
