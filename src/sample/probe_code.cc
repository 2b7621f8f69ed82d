// SPDX-License-Identifier: MIT
#include "sample/probe_code.h"

#include <algorithm>
#include <utility>

namespace shadowprof::sample {
namespace {

static_assert(collect::kMostProbes <= NamedFunctions::kMostPatterns);

// A pattern of all functions needs no names, unless it is about their entries.
std::vector<FunctionPattern> patterns_of(const std::vector<collect::Probe>& probes) {
  std::vector<FunctionPattern> patterns;
  for (const collect::Probe& probe : probes) {
    const collect::ProbePattern& p = probe.pattern;
    const bool is_any = p.function == "*" && !p.entry;
    patterns.push_back({p.module, is_any ? "" : p.function, !p.file.empty()});
  }
  return patterns;
}

}  // namespace

ProbeCode::ProbeCode(const trace::BlockTable& table, std::vector<collect::Probe> probes,
                     int64_t started)
    : table_(table), probes_(std::move(probes)), named_(table, patterns_of(probes_), started) {
  for (size_t p = 0; p < probes_.size(); p++)
    if (probes_[p].pattern.entry) of_entries_ |= static_cast<uint16_t>(1u << p);
  for (size_t p = 0; p < probes_.size(); p++)
    if (!probes_[p].pattern.file.empty()) code_->of_lines |= static_cast<uint16_t>(1u << p);
}

// Those of the probes that match the instruction and whose lines it is of.
uint16_t ProbeCode::of_line(const trace::Block& block, const decoder::Insn& insn,
                            uint16_t probes) const {
  uint16_t candidates = 0;
  for (size_t p = 0; p < probes_.size(); p++)
    if ((probes >> p & 1) != 0 && collect::matches(probes_[p].pattern, insn))
      candidates |= static_cast<uint16_t>(1u << p);
  if (candidates == 0) return 0;
  const auto line = named_.line_of(block, insn.address);
  if (!line) return 0;
  for (size_t p = 0; p < probes_.size(); p++)
    if (!collect::is_of_lines(probes_[p].pattern, line->file, line->line))
      candidates &= static_cast<uint16_t>(~(1u << p));
  return candidates;
}

void ProbeCode::look_at_lines(BlockId id, const trace::Block& block) {
  const auto probes = static_cast<uint16_t>(code_->within[id.value] & code_->of_lines);
  if (probes == 0) return;
  auto& lines = code_->lines[id.value];
  lines.first = static_cast<uint32_t>(code_->on_line.size());
  const auto code = table_.code(block);
  for (size_t at = 0; at < code.size();) {
    const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
    if (const uint16_t there = of_line(block, insn, probes); there != 0) {
      if (code_->on_line.size() == collect::ProbedCode::kMostOnLine) break;
      code_->on_line.push_back({static_cast<uint32_t>(at), there});
      lines.count++;
    }
    at += std::max<size_t>(insn.length, 1);
  }
}

void ProbeCode::meet(BlockId id) {
  if (met_.size() <= id.value) met_.resize(std::max<size_t>(id.value + 1, met_.size() * 2));
  if (met_[id.value]) return;
  met_[id.value] = true;
  const NamedFunctions::Found found = named_.find(table_.block(id));
  code_->function[id.value] = found.function;
  code_->within[id.value] = static_cast<uint16_t>(found.patterns & ~of_entries_);
  code_->entries[id.value] = found.is_entry ? found.patterns & of_entries_ : uint16_t{0};
  look_at_lines(id, table_.block(id));
}

trace::CaptureWish ProbeCode::wish(BlockId block, const decoder::Insn& insn, bool first) {
  trace::CaptureWish all;
  const auto offset = static_cast<uint64_t>(insn.address - table_.block(block).start);
  const auto within = code_->within_at(block, offset);
  const auto entries = first ? code_->entries[block.value] : uint16_t{0};
  for (size_t p = 0; p < probes_.size() && (within | entries) != 0; p++) {
    const bool there = ((within | entries) >> p & 1) != 0;
    if (!there || !collect::matches(probes_[p].pattern, insn)) continue;
    const trace::CaptureWish wish = collect::wish_of(probes_[p], insn);
    all.registers |= wish.registers;
    all.addresses |= wish.addresses;
    all.results |= wish.results;
    all.divisor |= wish.divisor;
    all.cycles |= wish.cycles;
  }
  return all;
}

bool ProbeCode::times_loads() const {
  return collect::time_loads(probes_);
}

}  // namespace shadowprof::sample
