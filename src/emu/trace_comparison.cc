// SPDX-License-Identifier: MIT
#include "emu/trace_comparison.h"

#include <fmt/format.h>

#include "decoder/operation.h"

namespace shadowprof::emu {

using trace::RunExit;
using trace::SlotKind;

// Goes through a trace one instruction at a time.
class TraceComparison::Walk {
 public:
  Walk(Side& side, std::span<const trace::Word> words) : side_(side), reader_(side.table, words) {}

  // Nothing: the trace ends, or what follows is not the same twice.
  std::optional<Step> next() {
    if (insn_ == (run_ ? run_->insns : 0) && !next_run()) return std::nullopt;
    while (at_ == facts_->size()) {
      facts_ = &side_.facts_of(side_.table.blocks(*run_)[++block_]);
      at_ = 0;
    }
    Step step;
    step.fact = &(*facts_)[at_++];
    if (!step.fact->same_twice) return std::nullopt;
    take_slots(step);
    insn_++;
    return step;
  }

 private:
  bool next_run() {
    if (run_ && (run_->exit == RunExit::syscall || run_->exit == RunExit::native)) return false;
    for (;;) {
      const auto next = reader_.next();
      if (!next || !*next) return false;
      record_ = **next;
      if (!record_.special()) break;
      if (record_.kind() != trace::SpecialKind::sample_start) return false;
    }
    run_ = &side_.table.run(record_.run());
    insn_ = slot_ = block_ = at_ = 0;
    known_ = before_ = {};
    facts_ = &side_.facts_of(side_.table.blocks(*run_)[0]);
    return run_->insns != 0;
  }

  void take_slots(Step& step) {
    const decoder::Insn& insn = step.fact->insn;
    const auto slots = side_.table.slots(*run_);
    bool is_recorded = false;  // what the instruction's sum is
    for (; slot_ < slots.size() && slots[slot_].insn == insn_; slot_++) {
      const trace::Slot& slot = slots[slot_];
      const uint64_t value = record_.slot(slot_);
      switch (slot.kind) {
        case SlotKind::value:
          step.results[slot.reg == insn.result ? 0 : 1] = value;
          is_recorded |= slot.reg == insn.sum.to;
          break;
        case SlotKind::memory:
          step.compared[2] = value;
          continue;
        case SlotKind::vector:
        case SlotKind::mask:
          step.element = value;
          continue;
        case SlotKind::load_cycles:
        case SlotKind::stamps:
        case SlotKind::moment:
        case SlotKind::bout:
          continue;
        case SlotKind::base:
        case SlotKind::index:
        case SlotKind::compared:
          before_[slot.reg] = value;
          break;
      }
      known_[slot.reg] = value;
    }
    for (uint8_t i = 0; i < insn.access_count; i++) {
      const decoder::MemoryAccess& a = insn.accesses[i];
      if (a.base < 16) step.address[2u * i] = before_[a.base];
      if (a.index < 16) step.address[2u * i + 1] = before_[a.index];
    }
    for (size_t i = 0; i < insn.compared.size(); i++)
      if (insn.compared[i].reg < 16) step.compared[i] = before_[insn.compared[i].reg];
    if (insn.sum.to < 16 && !is_recorded)
      known_[insn.sum.to] = before_[insn.sum.from] + static_cast<uint64_t>(insn.sum.addend);
    before_ = known_;
  }

  Side& side_;
  trace::Reader reader_;
  trace::Record record_;
  const trace::Run* run_ = nullptr;
  const std::vector<Fact>* facts_ = nullptr;
  size_t insn_ = 0, slot_ = 0, block_ = 0, at_ = 0;
  std::array<uint64_t, 16> known_{};   // registers, after the present instruction
  std::array<uint64_t, 16> before_{};  // and before it
};

bool TraceComparison::Step::same_place(const Step& other) const {
  return fact->insn.address == other.fact->insn.address && address == other.address;
}

bool TraceComparison::Step::operator==(const Step& other) const {
  return same_place(other) && results == other.results && compared == other.compared &&
         element == other.element;
}

bool TraceComparison::loads_shared(const Step& step) const {
  const decoder::Insn& insn = step.fact->insn;
  for (uint8_t i = 0; i < insn.access_count; i++) {
    const decoder::MemoryAccess& a = insn.accesses[i];
    if (!a.read) continue;
    const uint64_t base =
        a.base == decoder::kRip ? (insn.address + insn.length).value : step.address[2u * i];
    const GuestAddr at(base + step.address[2u * i + 1] * a.scale +
                       static_cast<uint64_t>(a.displacement));
    for (const GuestRange& range : shared_)
      if (range.contains(at)) return true;
  }
  return false;
}

const std::vector<TraceComparison::Fact>& TraceComparison::Side::facts_of(BlockId id) {
  auto& known = facts[id];
  if (!known.empty()) return known;
  const trace::Block& block = table.block(id);
  const auto code = table.code(block);
  for (size_t at = 0; at < code.size() && known.size() < block.insns;) {
    Fact fact;
    fact.insn = decoder::decode(code.subspan(at), block.start + at);
    if (fact.insn.length == 0) break;
    fact.same_twice = !decoder::decode_operation(fact.insn).nondeterministic;
    at += fact.insn.length;
    known.push_back(fact);
  }
  // Bytes that are no instruction are the kernel's business.
  while (known.size() < std::max<size_t>(1, block.insns)) known.push_back({{}, false});
  return known;
}

std::string TraceComparison::describe(const Step& step) {
  const decoder::Insn& insn = step.fact->insn;
  std::string text =
      fmt::format("{:#x} {}", insn.address.value,
                  decoder::disassemble(std::span(insn.bytes).first(insn.length), insn.address));
  text += fmt::format(" -> {:#x}, {:#x}; compares {:#x}, {:#x}, {:#x}", step.results[0],
                      step.results[1], step.compared[0], step.compared[1], step.compared[2]);
  if (step.element) text += fmt::format("; leaves {:#x}", *step.element);
  for (uint8_t i = 0; i < insn.access_count; i++) {
    text += fmt::format(" [{:#x}, {:#x}]", step.address[2u * i], step.address[2u * i + 1]);
  }
  return text;
}

Comparison TraceComparison::compare(const char* first_name, std::span<const trace::Word> first,
                                    const char* second_name, std::span<const trace::Word> second) {
  Walk a(sides_[0], first), b(sides_[1], second);
  Comparison result;
  for (;;) {
    const auto ours = a.next();
    const auto theirs = b.next();
    if (!ours || !theirs) return result;
    if (!(*ours == *theirs)) {
      if (ours->same_place(*theirs) && loads_shared(*ours)) return result;
      result.difference = fmt::format("after {} instructions: {}: {}; {}: {}", result.instructions,
                                      first_name, describe(*ours), second_name, describe(*theirs));
      return result;
    }
    result.instructions++;
  }
}

}  // namespace shadowprof::emu
