// SPDX-License-Identifier: MIT
#include "collect/probes/probe_plan.h"

#include <algorithm>

#include "decoder/divisor.h"

namespace shadowprof::collect {

using decoder::Insn;
using trace::RunExit;
using trace::SlotKind;

// An instruction on its way through a run.
struct ProbePlans::Step {
  const trace::Run& run;
  BlockId block;
  const Insn& insn;
  bool first;  // of the run
  bool last;
};

namespace {

bool is_branch(const Insn& insn) {
  return insn.is_terminator() && insn.kind != decoder::InsnKind::native &&
         insn.kind != decoder::InsnKind::syscall;
}

// Where a direct exit leads.
uint64_t target_of(const trace::Run& run, const Insn& insn) {
  return run.exit == RunExit::not_taken ? insn.next().value : run.target.value;
}

}  // namespace

void ProbePlans::add_input(ProbeFact fact, const RecordedRegister& from, uint8_t shift,
                           uint8_t bits) {
  if (from.word == kNoWord) return;
  AddressPlan sum;
  sum.base_word = from.word;
  sum.fixed = from.addend;
  inputs_.push_back({fact, sum, shift, bits});
  events_.back().inputs++;
}

void ProbePlans::add_constant(ProbeFact fact, uint64_t number, uint8_t bits) {
  AddressPlan sum;
  sum.fixed = number;
  inputs_.push_back({.fact = fact, .sum = sum, .bits = bits});
  events_.back().inputs++;
}

void ProbePlans::plan_accessed(const Step& step, const RecordedWords& recorded,
                               const Probe& probe) {
  const decoder::MemoryAccess* const access = probed_access(probe.pattern, step.insn);
  if (access == nullptr) return;
  if (probe.uses_fact(ProbeFact::size) && access->size != 0)
    add_constant(ProbeFact::size, access->size);
  if (!probe.uses_fact(ProbeFact::address)) return;
  const AddressPlan where = recorded.address(step.insn, *access);
  if (!where.known) return;
  inputs_.push_back({.fact = ProbeFact::address, .sum = where});
  events_.back().inputs++;
}

// What is known before the instruction has executed; its result comes later.
void ProbePlans::plan_event(const Step& step, const RecordedWords& recorded, size_t number) {
  const Probe& probe = probes_[number];
  ProbeEvent event;
  event.first_input = static_cast<uint32_t>(inputs_.size());
  event.probe = static_cast<uint8_t>(number);
  event.is_entry = probe.pattern.entry;
  event.waits_for_target = probe.uses_fact(ProbeFact::target) && step.last &&
                           is_branch(step.insn) && trace::is_indirect(step.run.exit);
  events_.push_back(event);
  for (uint8_t reg = 0; reg < 16; reg++)
    if (probe.uses_fact(static_cast<ProbeFact>(reg)))
      add_input(static_cast<ProbeFact>(reg), recorded.registers[reg], 0, 64);
  if (probe.uses_fact(ProbeFact::place)) add_constant(ProbeFact::place, step.insn.address.value);
  if (probe.uses_fact(ProbeFact::target) && is_branch(step.insn) && !event.waits_for_target)
    add_constant(ProbeFact::target,
                 step.last ? target_of(step.run, step.insn) : step.insn.next().value);
  plan_accessed(step, recorded, probe);
  if (probe.uses_fact(ProbeFact::latency)) add_input(ProbeFact::latency, {recorded.cycles}, 0, 64);
  if (const auto stored = stored_operand(step.insn); stored && probe.uses_fact(ProbeFact::value)) {
    if (stored->reg < 16)
      add_input(ProbeFact::value, recorded.registers[stored->reg], stored->shift, stored->bits);
    else
      add_constant(ProbeFact::value, stored->constant, stored->bits);
  }
  const auto divisor = decoder::divisor_of(step.insn);
  if (!divisor || !probe.uses_fact(ProbeFact::divisor)) return;
  const RecordedRegister from =
      divisor->in_memory ? RecordedRegister{recorded.memory} : recorded.registers[divisor->reg];
  add_input(ProbeFact::divisor, from, divisor->shift, divisor->bits);
}

void ProbePlans::plan_insn(const Step& step, const RecordedWords& recorded) {
  const unsigned within = code_.within_at(
      step.block, static_cast<uint64_t>(step.insn.address - table_.block(step.block).start));
  const unsigned entries = step.first ? code_.entries[step.block.value] : 0u;
  for (size_t p = 0; p < probes_.size(); p++) {
    const bool there = ((probes_[p].pattern.entry ? entries : within) >> p & 1) != 0;
    if (there && (probes_[p].pattern.entry || matches(probes_[p].pattern, step.insn)))
      plan_event(step, recorded, p);
  }
}

// Inputs of an event stand together, so they are moved behind all others when one more comes.
void ProbePlans::add_results(const Insn& insn, size_t first_event, const trace::Slot& slot,
                             uint16_t word) {
  const bool general = slot.kind == SlotKind::value && slot.reg == insn.result;
  const bool element = slot.kind == SlotKind::vector || slot.kind == SlotKind::mask;
  if (!general && !element) return;
  const uint8_t bits = general ? insn.result_bits : insn.element_result.bits;
  ProbeInput result{.fact = ProbeFact::value};
  result.sum.base_word = word;
  result.shift = general ? insn.result_shift : uint8_t{0};
  result.bits = bits == 0 ? uint8_t{64} : bits;
  for (size_t e = first_event; e < events_.size(); e++) {
    ProbeEvent& event = events_[e];
    if (!probes_[event.probe].uses_fact(ProbeFact::value) || event.is_entry) continue;
    const auto moved = static_cast<uint32_t>(inputs_.size());
    for (uint32_t i = 0; i < event.inputs; i++) inputs_.push_back(inputs_[event.first_input + i]);
    event.first_input = moved;
    inputs_.push_back(result);
    event.inputs++;
  }
}

void ProbePlans::plan(RunId id) {
  if (id.value >= table_.run_count()) return;
  const trace::Run& run = table_.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  const auto blocks = table_.blocks(run);
  const trace::Block& last = table_.block(blocks.back());
  ProbedRun& own = runs_[id.value];
  own.first_event = static_cast<uint32_t>(events_.size());
  own.exit = run.exit;
  own.is_empty = run.insns == 0;
  own.stamps_word = word_of(trace::SlotKind::stamps, table_.slots(run));
  own.function = code_.function[blocks.front().value];
  own.last_function = code_.function[blocks.back().value];
  own.start = table_.block(blocks.front()).start.value;
  // `call next` only reads the program counter.
  if (trace::is_call(run.exit) && run.target != last.end) own.returns_to = last.end.value;
  RecordedWords recorded(table_.slots(run));
  uint32_t index = 0;
  for (const BlockId b : blocks) {
    const trace::Block& block = table_.block(b);
    const auto code = table_.code(block);
    size_t at = 0;
    for (uint32_t i = 0; i < block.insns && index < run.insns && at < code.size(); i++, index++) {
      const Insn insn = decoder::decode(code.subspan(at), block.start + at);
      at += std::max<size_t>(insn.length, 1);
      recorded.enter(index);
      const size_t first_event = events_.size();
      plan_insn({run, b, insn, index == 0, index + 1 == run.insns}, recorded);
      recorded.leave(insn, [&](const trace::Slot& slot, uint16_t word) {
        add_results(insn, first_event, slot, word);
      });
    }
  }
  own.events = static_cast<uint16_t>(events_.size() - own.first_event);
  own.words = run.words;
}

}  // namespace shadowprof::collect
