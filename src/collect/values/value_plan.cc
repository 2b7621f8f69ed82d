// SPDX-License-Identifier: MIT
//
// What is worked out once for each run.
#include <algorithm>

#include "collect/linkage_stub.h"
#include "collect/values/value_state.h"
#include "decoder/insn.h"

namespace shadowprof::collect {

using profile::ValuePart;
using trace::RunExit;
using trace::SlotKind;

namespace {

constexpr uint8_t kNotAnArgument = 0xff;

uint8_t argument_of(uint8_t reg) {
  switch (reg) {
    case decoder::kRdi:
      return 0;
    case decoder::kRsi:
      return 1;
    case decoder::kRdx:
      return 2;
    case decoder::kRcx:
      return 3;
    case decoder::kR8:
      return 4;
    case decoder::kR9:
      return 5;
    default:
      return kNotAnArgument;
  }
}

bool is_stub(const trace::Block& block, std::span<const uint8_t> code) {
  const auto before = block.last_insn - block.start;
  if (block.insns > kMaxStubInsns || static_cast<size_t>(before) >= code.size()) return false;
  const decoder::Insn jump =
      decoder::decode(code.subspan(static_cast<size_t>(before)), block.last_insn);
  if (!jump.rip_relative) return false;
  return block.insns == 1 || decoder::decode(code, block.start).reads == 0;
}

uint64_t hash_of(std::span<const uint8_t> bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const uint8_t b : bytes) hash = (hash ^ b) * 0x100000001b3ull;
  return hash;
}

}  // namespace

ArgumentMask arguments_in(decoder::GprMask registers, decoder::VectorMask vectors) {
  unsigned result = static_cast<unsigned>(vectors) << profile::kIntegerArguments;
  for (uint8_t r = 0; r < 16; r++) {
    const uint8_t argument = argument_of(r);
    if (registers >> r & 1 && argument != kNotAnArgument) result |= 1u << argument;
  }
  return static_cast<ArgumentMask>(result);
}

void ValueCollector::State::learn_block(BlockId id) {
  const trace::Block& block = table.block(id);
  const std::span<const uint8_t> code = table.code(block);
  first_insn_of_block[id.value] = static_cast<uint32_t>(insns.size() + 1);
  size_t at = 0;
  for (uint32_t i = 0; i < block.insns; i++) {
    InsnFacts facts{};
    facts.double_result = decoder::kNoGpr;
    facts.address = block.start.value + at;
    if (at < code.size()) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      facts.writes = insn.writes;
      facts.vector_writes = insn.vector_writes;
      facts.result = {insn.result, insn.result_bits, insn.result_shift};
      facts.second = {insn.second_result, insn.second_bits, insn.second_shift};
      facts.element = insn.element_result;
      facts.double_result = insn.double_result;
      if (insn.loads_static)
        facts.loads_static = static_cast<int32_t>(insn.rip_target - insn.address);
      facts.length = insn.length;
      facts.constant = insn.constant_result;
      facts.divisor = decoder::divisor_of(insn).value_or(decoder::Divisor{});
      if (insn.compared_bits != 0) {
        compare_facts.push_back({insn.compared, insn.compared_bits, insn.compares_common_bits});
        facts.compare = static_cast<uint32_t>(compare_facts.size());
      }
      at += std::max<size_t>(insn.length, 1);
    }
    insns.push_back(facts);
  }
}

ValueEntry* ValueCollector::State::entry_of(InsnFacts& facts, BlockId block, ValuePart part,
                                            uint8_t bits) {
  ValueEntry*& known_entry = facts.entries[static_cast<size_t>(part)];
  if (known_entry != nullptr) return known_entry;
  const trace::Block& in = table.block(block);
  const std::span<const uint8_t> code = table.code(in);
  const auto offset = static_cast<uint32_t>(facts.address - in.start.value);
  const size_t length =
      std::min<size_t>(facts.length, code.size() - std::min<size_t>(offset, code.size()));
  const std::span<const uint8_t> bytes =
      length == 0 ? std::span<const uint8_t>() : code.subspan(offset, length);
  InsnEntry& entry = insn_entries[{facts.address, hash_of(bytes), part}];
  if (entry.entry == nullptr)
    entry = {&entries.emplace_back(),
             in.module,
             block,
             offset,
             bits,
             facts.length,
             facts.constant && part == ValuePart::result,
             facts.loads_static,
             facts.element};
  return known_entry = entry.entry;
}

void ValueCollector::State::plan_compare(InsnFacts& facts, BlockId block,
                                         const RecordedWords& recorded) {
  if (facts.compare == 0) return;
  const CompareFacts& compare = compare_facts[facts.compare - 1];
  ComparePlan plan{};
  const auto word_of = [&](const decoder::ComparedOperand& side) {
    return side.kind == decoder::ComparedOperand::Kind::memory ? recorded.memory
                                                               : recorded.registers[side.reg].word;
  };
  plan.left_word = word_of(compare.sides[0]);
  plan.left_shift = compare.sides[0].shift;
  if (compare.sides[1].kind == decoder::ComparedOperand::Kind::immediate) {
    plan.immediate = static_cast<uint64_t>(compare.sides[1].immediate);
  } else {
    plan.right_word = word_of(compare.sides[1]);
    plan.right_shift = compare.sides[1].shift;
    if (plan.right_word == kNoWord) return;
  }
  if (plan.left_word == kNoWord) return;
  plan.unused = static_cast<uint8_t>(64 - compare.bits);
  plan.common_bits = compare.common_bits;
  plan.entry = entry_of(facts, block, ValuePart::comparison, compare.bits);
  compare_plans.push_back(plan);
}

void ValueCollector::State::plan_divisor(InsnFacts& facts, BlockId block,
                                         const RecordedWords& recorded) {
  const decoder::Divisor& by = facts.divisor;
  if (by.bits == 0) return;
  const uint16_t word = by.in_memory ? recorded.memory : recorded.registers[by.reg].word;
  if (word == kNoWord) return;
  const auto unused = static_cast<uint8_t>(64 - by.bits);
  slot_plans.push_back({entry_of(facts, block, ValuePart::divisor, by.bits), word,
                        static_cast<uint8_t>(unused - by.shift), unused});
}

// A register that holds both results (the quotient and the remainder of a division of bytes) has
// one slot.
void ValueCollector::State::plan_result(InsnFacts& facts, BlockId block, uint8_t reg,
                                        uint16_t word) {
  const auto add = [&](const InsnFacts::Bits& bits, ValuePart part) {
    const auto count = static_cast<uint8_t>(std::clamp<unsigned>(bits.count, 1, 64));
    slot_plans.push_back({entry_of(facts, block, part, count), word,
                          static_cast<uint8_t>(64 - count - bits.shift),
                          static_cast<uint8_t>(64 - count)});
  };
  const bool is_second = facts.second.reg == reg;
  // Without the code, what a slot has is a result.
  if (!is_second && facts.result.reg != reg) return add({reg, 64, 0}, ValuePart::result);
  if (facts.result.reg == reg) add(facts.result, ValuePart::result);
  if (is_second) add(facts.second, ValuePart::second);
}

// A slot has the low 64 bits of the register.
void ValueCollector::State::plan_element(InsnFacts& facts, BlockId block, uint16_t word) {
  const uint8_t bits = facts.element.bits == 0 ? uint8_t{64} : facts.element.bits;
  const auto unused = static_cast<uint8_t>(64 - bits);
  slot_plans.push_back({entry_of(facts, block, ValuePart::result, bits), word, unused, unused});
}

uint32_t ValueCollector::State::site_of(const trace::Block& last) {
  const auto [known, is_new] =
      site_by_address.try_emplace(last.last_insn.value, static_cast<uint32_t>(sites.size()));
  if (is_new) sites.push_back({last.last_insn, last.end, last.module});
  return known->second;
}

// A run's id appears in a trace only after the run was added; one without words was never given
// out.
void ValueCollector::State::start_run(RunId id) {
  const trace::Run& run = table.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  const std::span<const BlockId> blocks = table.blocks(run);
  for (const BlockId b : blocks)
    if (first_insn_of_block[b.value] == 0) learn_block(b);

  RunPlan plan{};
  plan.first_slot = static_cast<uint32_t>(slot_plans.size());
  plan.first_compare = static_cast<uint32_t>(compare_plans.size());
  plan.first_write = static_cast<uint32_t>(argument_writes.size());
  plan.first_block = run.first_block.value;
  plan.start = table.block(run.first_block).start.value;
  plan.target = trace::is_indirect(run.exit) ? 0 : run.target.value;
  plan.callee = plan.context_slots = kNone;
  uint32_t index = 0;  // of the instruction within the run
  uint16_t last_word[profile::kArguments] = {};
  RecordedWords recorded(table.slots(run));
  for (const BlockId b : blocks) {
    const trace::Block& block = table.block(b);
    for (uint32_t i = 0; i < block.insns && index < run.insns; i++, index++) {
      InsnFacts& facts = insns[first_insn_of_block[b.value] - 1 + i];
      recorded.enter(index);
      plan_compare(facts, b, recorded);
      plan_divisor(facts, b, recorded);
      const ArgumentMask clobbered = arguments_in(facts.writes, facts.vector_writes);
      plan.clobbered |= clobbered;
      plan.written &= static_cast<ArgumentMask>(~clobbered);
      recorded.leave(facts.writes, [&](const trace::Slot& slot, uint16_t word) {
        uint8_t argument = kNotAnArgument;
        if (slot.kind == SlotKind::value) {
          plan_result(facts, b, slot.reg, word);
          argument = argument_of(slot.reg);
        } else {
          plan_element(facts, b, word);
          if (slot.kind == SlotKind::vector && slot.reg == facts.double_result)
            argument = static_cast<uint8_t>(profile::kIntegerArguments + slot.reg);
        }
        if (argument >= profile::kArguments) return;
        last_word[argument] = word;
        plan.written |= static_cast<ArgumentMask>(1u << argument);
      });
    }
  }
  for (uint8_t a = 0; a < profile::kArguments; a++)
    if (plan.written >> a & 1) argument_writes.push_back({last_word[a], a});
  plan.slots = static_cast<uint16_t>(slot_plans.size() - plan.first_slot);
  plan.compares = static_cast<uint16_t>(compare_plans.size() - plan.first_compare);
  plan.writes = static_cast<uint8_t>(argument_writes.size() - plan.first_write);
  const trace::Block& last = table.block(blocks.back());
  plan.is_stub = run.exit == RunExit::indirect_jump && is_stub(last, table.code(last));
  // `call next` only reads the program counter.
  if (trace::is_call(run.exit) && run.target != last.end) {
    plan.exit = Exit::call;
    plan.site = site_of(last);
  } else if (run.exit == RunExit::ret) {
    plan.exit = Exit::ret;
  }
  plans[id.value] = plan;
  runs[id.value].words = run.words;
  runs[id.value].captures = run.captures;
  runs[id.value].passes = options.seen_enough != nullptr && !run.captures && run.words == 1;
  // What the interpreter has lowered the engine's translations do not know.
  if (options.seen_enough != nullptr && !is_brief) note_translation(id, run);
}

// Runs are numbered as they are translated. Partial runs of interrupted fragments come any time.
void ValueCollector::State::note_translation(RunId id, const trace::Run& run) {
  if (run.exit == RunExit::interrupted || run.of_bouts) return;
  FragmentLooks& seen = looks[run.first_block.value];
  if (!run.captures) {
    seen.plain_run = std::max(seen.plain_run, id.value);
  } else if (seen.told && seen.plain_run != 0 && id.value > seen.plain_run) {
    seen.told = false;  // code that was forgotten and translated again
    seen.looked = 0;
  }
}

}  // namespace shadowprof::collect
