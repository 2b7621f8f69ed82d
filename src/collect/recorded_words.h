// SPDX-License-Identifier: MIT
//
// Which word of a run's record has what, instruction by instruction. A register that is in a slot
// already has no second one while it can be told from that: where it is has to be followed.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/limits.h"
#include "decoder/insn.h"
#include "trace/block_table.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

inline constexpr uint16_t kNoWord = 0;  // word 0 is the run's id

inline uint16_t word_of_slot(size_t slot) {
  return static_cast<uint16_t>(1 + 2 * slot);
}

// Where a record has the first slot of that kind; kNoWord: it has none.
inline uint16_t word_of(trace::SlotKind kind, std::span<const trace::Slot> slots) {
  const auto slot = std::ranges::find(slots, kind, &trace::Slot::kind);
  return slot == slots.end() ? kNoWord : word_of_slot(static_cast<size_t>(slot - slots.begin()));
}

inline uint64_t value_at(const trace::Word* words, uint16_t word) {
  uint64_t value;
  __builtin_memcpy(&value, words + word, sizeof(value));
  return value;
}

// A register: what the word has, plus a constant.
struct RecordedRegister {
  uint16_t word = kNoWord;
  uint64_t addend = 0;
};

// An address, from the registers that a record has.
struct AddressPlan {
  uint64_t fixed = 0;
  uint16_t base_word = kNoWord;  // kNoWord: no register, it is part of `fixed`
  uint16_t index_word = kNoWord;
  uint8_t scale = 0;
  bool known = false;     // the address is what the words and `fixed` add up to
  bool on_stack = false;  // the base is rsp

  uint64_t at(const trace::Word* words) const {
    uint64_t address = fixed;
    if (base_word != kNoWord) address += value_at(words, base_word);
    if (index_word != kNoWord) address += value_at(words, index_word) * scale;
    return address;
  }
};

// For each instruction of a run in order: enter(), then what is asked of it, then leave(). The user
// of for_each_insn() calls the last.
class RecordedWords {
 public:
  explicit RecordedWords(std::span<const trace::Slot> slots) : slots_(slots) {}

  // Slots of what is there before an instruction come first.
  void enter(uint32_t insn) {
    insn_ = insn;
    memory = cycles = kNoWord;
    for (; has_slot() && is_before(slots_[next_].kind); next_++) {
      const trace::Slot& slot = slots_[next_];
      if (slot.kind == trace::SlotKind::memory) {
        memory = word();
      } else if (slot.kind == trace::SlotKind::load_cycles) {
        cycles = word();
      } else if (is_of_run(slot.kind)) {
        continue;
      } else {
        registers[slot.reg] = {word()};
      }
    }
  }
  // `use(slot, word)` is called for each slot of what the instruction has left behind.
  template <typename Use>
  void leave(decoder::GprMask writes, Use use) {
    for (size_t r = 0; r < registers.size(); r++)
      if (writes >> r & 1) registers[r] = {};
    for (; has_slot(); next_++) {
      use(slots_[next_], word());
      if (slots_[next_].kind == trace::SlotKind::value) registers[slots_[next_].reg] = {word()};
    }
  }
  // The same, for who asks for addresses.
  template <typename Use>
  void leave(const decoder::Insn& insn, Use use) {
    RecordedRegister told;
    if (insn.sum.to < 16) told = registers[insn.sum.from];
    leave(insn.writes, use);
    if (told.word == kNoWord || registers[insn.sum.to].word != kNoWord) return;
    registers[insn.sum.to] = {told.word, told.addend + static_cast<uint64_t>(insn.sum.addend)};
  }
  void leave(const decoder::Insn& insn) {
    leave(insn, [](const trace::Slot&, uint16_t) {});
  }

  // Between the two. Thread-local data: the segment's base is in no record.
  AddressPlan address(const decoder::Insn& insn, const decoder::MemoryAccess& access) const {
    AddressPlan plan;
    plan.fixed = access.base == decoder::kRip ? insn.rip_target.value
                                              : static_cast<uint64_t>(access.displacement);
    plan.scale = access.scale;
    plan.known = !insn.has_segment && !access.vector_index;
    if (access.base < 16) {
      plan.base_word = registers[access.base].word;
      plan.fixed += registers[access.base].addend;
      plan.known &= plan.base_word != kNoWord;
    }
    if (access.index < 16) {
      plan.index_word = registers[access.index].word;
      plan.fixed += registers[access.index].addend * access.scale;
      plan.known &= plan.index_word != kNoWord;
    }
    plan.on_stack = access.base == decoder::kRsp;
    return plan;
  }

  std::array<RecordedRegister, 16> registers{};
  uint16_t memory = kNoWord;  // what the instruction compares or divides by
  uint16_t cycles = kNoWord;  // the load's time stamps

 private:
  static bool is_of_run(trace::SlotKind kind) {
    return kind == trace::SlotKind::moment || kind == trace::SlotKind::stamps ||
           kind == trace::SlotKind::bout;
  }
  static bool is_before(trace::SlotKind kind) {
    return kind != trace::SlotKind::value && kind != trace::SlotKind::vector &&
           kind != trace::SlotKind::mask;
  }
  bool has_slot() const { return next_ < slots_.size() && slots_[next_].insn == insn_; }
  uint16_t word() const { return word_of_slot(next_); }

  std::span<const trace::Slot> slots_;
  size_t next_ = 0;
  uint32_t insn_ = 0;
};

// Counts the execution of the run that the record at `at` is of in `runs`, which start_run(id)
// fills in at its first, and calls use(id, run, words) for it; what is no run is told by say()
// (trace/special_record.h). Returns the record's words; 0: it is corrupt.
template <typename Runs, typename Start, typename Say, typename Use>
size_t take_record(const trace::Word* at, const trace::Word* end, Runs& runs, Start start_run,
                   Say say, Use use) {
  const trace::Word id = *at;
  const auto left = static_cast<size_t>(end - at);
  if (id >= limits::kMaxRuns) [[unlikely]] {
    return trace::is_special(id) ? trace::take_special({at, left}, say) : 0;
  }
  auto& run = runs[id];
  if (run.words == 0) [[unlikely]]
    start_run(RunId(id));
  if (run.words == 0 || run.words > left) return 0;
  run.executions++;
  use(RunId(id), run, at);
  return run.words;
}

// How often a run was executed: as somebody else has counted (null: nobody), or as take_record()
// has.
template <typename Runs>
uint64_t executions_of(size_t run, const std::vector<uint64_t>* counted, const Runs& runs) {
  if (counted == nullptr) return runs[run].executions;
  return run < counted->size() ? (*counted)[run] : 0;
}

// use(block, insn, recorded) for each instruction of a run, which it has entered.
template <typename Use>
void for_each_insn(const trace::BlockTable& table, const trace::Run& run, Use use) {
  RecordedWords recorded(table.slots(run));
  uint32_t index = 0;
  for (const BlockId b : table.blocks(run)) {
    const trace::Block& block = table.block(b);
    const auto code = table.code(block);
    size_t at = 0;
    for (uint32_t i = 0; i < block.insns && index < run.insns && at < code.size(); i++, index++) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      at += std::max<size_t>(insn.length, 1);
      recorded.enter(index);
      use(block, insn, recorded);
    }
  }
}

}  // namespace shadowprof::collect
