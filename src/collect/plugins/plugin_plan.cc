// SPDX-License-Identifier: MIT
#include "collect/plugins/plugin_plan.h"

#include <algorithm>

namespace shadowprof::collect {

using decoder::Insn;

// An instruction on its way through a run.
struct PluginPlans::Step {
  BlockId id;
  const trace::Block& block;
  const Insn& insn;
};

PluginPlans::PluginPlans(const trace::BlockTable& table, uint32_t wants)
    : table_(table), wants_(wants), runs_(limits::kMaxRuns) {
  if (this->wants(SHADOWPROF_WANTS_ACCESSES)) accesses_.emplace(table);
  runs_.prefer_huge_pages();
}

uint32_t PluginPlans::number_of(const PluggedPlace& place, uint64_t key) {
  auto& known = place.is_block ? blocks_ : instructions_;
  const auto [found, is_new] = known.try_emplace(key, static_cast<uint32_t>(places_.size()));
  if (is_new) places_.push_back(place);
  return found->second;
}

// An instruction is one place, whatever blocks have it.
uint32_t PluginPlans::place_of(const Step& step) {
  constexpr int kModuleShift = 48;
  const uint64_t key = step.insn.address.value ^ uint64_t { step.block.module.value }
                                                     << kModuleShift;
  const auto into = static_cast<uint16_t>(step.insn.address - step.block.start);
  return number_of({step.id, into, step.insn.length, false}, key);
}

void PluginPlans::plan_block(const trace::Run& run, size_t index, uint32_t executed) {
  const BlockId id = table_.blocks(run)[index];
  const trace::Block& block = table_.block(id);
  PlannedRecord record;
  record.kind = SHADOWPROF_BLOCK;
  record.size = static_cast<uint16_t>(std::min<uint32_t>(block.insns, run.insns - executed));
  record.place = number_of({id, 0, block.code_bytes, true}, id.value);
  records_.push_back(record);
}

void PluginPlans::plan_accesses(std::span<const PlannedAccess>& left, uint32_t index,
                                const Step& step) {
  for (; !left.empty() && left.front().insn == index; left = left.subspan(1)) {
    const PlannedAccess& access = left.front();
    if (access.event == AccessEvent::drain) continue;
    const bool loads =
        access.event == AccessEvent::load || access.event == AccessEvent::unknown_load;
    const bool known = access.event == AccessEvent::load || access.event == AccessEvent::store;
    PlannedRecord record;
    record.kind = loads ? SHADOWPROF_LOAD : SHADOWPROF_STORE;
    record.size = access.bytes;
    record.place = place_of(step);
    if (access.on_stack) record.flags |= SHADOWPROF_STACK;
    if (known) {
      record.fixed = access.fixed;
      record.base_word = access.base_word;
      record.index_word = access.index_word;
      record.scale = access.scale;
    } else {
      record.flags |= SHADOWPROF_UNKNOWN;
    }
    records_.push_back(record);
  }
}

// A register's is where the record has it, or follows from where it has another one's. What is
// always the same tells nobody anything.
void PluginPlans::plan_result(const RecordedWords& recorded, const Insn& insn, const Step& step,
                              std::optional<PlannedRecord> element) {
  if (insn.constant_result) return;
  PlannedRecord record;
  if (element) {
    record = *element;
  } else {
    if (insn.result >= 16 || recorded.registers[insn.result].word == kNoWord) return;
    record.base_word = recorded.registers[insn.result].word;
    record.fixed = recorded.registers[insn.result].addend;
    record.shift = insn.result_shift;
    if (insn.result_bits != 0) record.bits = insn.result_bits;
  }
  record.kind = SHADOWPROF_VALUE;
  record.size = record.bits;
  record.place = place_of(step);
  records_.push_back(record);
}

void PluginPlans::plan(RunId id) {
  if (id.value >= table_.run_count()) return;
  const trace::Run& run = table_.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  const PlannedRun* const accessing = accesses_ ? accesses_->run(id) : nullptr;
  auto accesses =
      accessing == nullptr ? std::span<const PlannedAccess>() : accesses_->accesses(*accessing);
  PluginRun& own = runs_[id.value];
  own.first = static_cast<uint32_t>(records_.size());
  const auto blocks = table_.blocks(run);
  size_t block_index = 0, met_blocks = 0;
  uint32_t index = 0, in_blocks = 0;
  // A block whose code is not known has no instructions to walk through.
  const auto meet_blocks = [&](size_t up_to) {
    for (; met_blocks < up_to; met_blocks++) {
      if (wants(SHADOWPROF_WANTS_BLOCKS) && in_blocks < run.insns)
        plan_block(run, met_blocks, in_blocks);
      in_blocks += table_.block(blocks[met_blocks]).insns;
    }
  };
  for_each_insn(table_, run, [&](const trace::Block& block, const Insn& insn, RecordedWords& r) {
    while (&table_.block(blocks[block_index]) != &block) block_index++;
    meet_blocks(block_index + 1);
    const Step step{blocks[block_index], block, insn};
    plan_accesses(accesses, index, step);
    if (wants(SHADOWPROF_WANTS_LATENCIES) && r.cycles != kNoWord) {
      PlannedRecord record;
      record.kind = SHADOWPROF_LATENCY;
      record.base_word = r.cycles;
      record.elapsed = true;
      record.place = place_of(step);
      records_.push_back(record);
    }
    std::optional<PlannedRecord> element;
    r.leave(insn, [&](const trace::Slot& slot, uint16_t word) {
      if (slot.kind != trace::SlotKind::vector && slot.kind != trace::SlotKind::mask) return;
      element.emplace();
      element->base_word = word;
      if (insn.element_result.bits != 0) element->bits = insn.element_result.bits;
    });
    if (wants(SHADOWPROF_WANTS_VALUES)) plan_result(r, insn, step, element);
    index++;
  });
  meet_blocks(blocks.size());
  own.records = static_cast<uint32_t>(records_.size() - own.first);
  own.places = static_cast<uint32_t>(places_.size());
  own.words = run.words;
}

}  // namespace shadowprof::collect
