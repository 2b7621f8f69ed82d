// SPDX-License-Identifier: MIT
//
// What is worked out once for each run, and the tables at the end.
#include <algorithm>

#include "collect/table_builder.h"
#include "collect/value_state.h"
#include "decoder/insn.h"

namespace shadowprof::collect {

using trace::RunExit;
using trace::SlotKind;

namespace {

// Rows for which disassembly is kept: more than anybody reads.
constexpr size_t kRowsWithText = 2000;

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

uint8_t arguments_in(uint16_t registers) {
  unsigned result = 0;
  for (uint8_t r = 0; r < 16; r++) {
    const uint8_t argument = argument_of(r);
    if (registers >> r & 1 && argument != kNotAnArgument) result |= 1u << argument;
  }
  return static_cast<uint8_t>(result);
}

uint64_t hash_of(std::span<const uint8_t> bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const uint8_t b : bytes) hash = (hash ^ b) * 0x100000001b3ull;
  return hash;
}

}  // namespace

void ValueCollector::State::learn_block(BlockId id) {
  const trace::Block& block = table.block(id);
  const std::span<const uint8_t> code = table.code(block);
  first_insn_of_block[id.value] = static_cast<uint32_t>(insns.size() + 1);
  size_t at = 0;
  for (uint32_t i = 0; i < block.insns; i++) {
    InsnFacts facts{};
    facts.address = block.start.value + at;
    if (at < code.size()) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      facts.writes = insn.writes;
      facts.bits = insn.result < 16 ? insn.result_bits : uint8_t{64};
      facts.shift = insn.result_shift;
      facts.length = insn.length;
      facts.constant = insn.constant_result;
      at += std::max<size_t>(insn.length, 1);
    }
    insns.push_back(facts);
  }
}

ValueEntry* ValueCollector::State::entry_of(InsnFacts& facts, BlockId block,
                                            uint32_t offset_in_block) {
  if (facts.entry != nullptr) return facts.entry;
  const std::span<const uint8_t> code = table.code(table.block(block));
  const size_t known =
      std::min<size_t>(facts.length, code.size() - std::min<size_t>(offset_in_block, code.size()));
  const std::span<const uint8_t> bytes =
      known == 0 ? std::span<const uint8_t>() : code.subspan(offset_in_block, known);
  InsnEntry& entry = insn_entries[{facts.address, hash_of(bytes)}];
  if (entry.entry == nullptr)
    entry = {&entries.emplace_back(),
             table.block(block).module,
             block,
             offset_in_block,
             facts.bits,
             facts.length,
             facts.constant};
  return facts.entry = entry.entry;
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
  plan.first_write = static_cast<uint32_t>(argument_writes.size());
  plan.first_block = run.first_block.value;
  plan.callee = plan.context_slots = kNone;
  const std::span<const trace::Slot> slots = table.slots(run);
  size_t slot = 0;
  uint32_t index = 0;  // of the instruction within the run
  uint16_t last_word[profile::kArguments] = {};
  for (const BlockId b : blocks) {
    const trace::Block& block = table.block(b);
    for (uint32_t i = 0; i < block.insns && index < run.insns; i++, index++) {
      InsnFacts& facts = insns[first_insn_of_block[b.value] - 1 + i];
      const uint8_t clobbered = arguments_in(facts.writes);
      plan.clobbered |= clobbered;
      plan.written &= static_cast<uint8_t>(~clobbered);
      for (; slot < slots.size() && slots[slot].insn == index; slot++) {
        if (slots[slot].kind != SlotKind::value) continue;
        const auto word = static_cast<uint16_t>(1 + 2 * slot);
        const auto offset = static_cast<uint32_t>(facts.address - block.start.value);
        const auto bits = static_cast<uint8_t>(std::clamp<unsigned>(facts.bits, 1, 64));
        slot_plans.push_back({entry_of(facts, b, offset), word,
                              static_cast<uint8_t>(64 - bits - facts.shift),
                              static_cast<uint8_t>(64 - bits)});
        const uint8_t argument = argument_of(slots[slot].reg);
        if (argument == kNotAnArgument) continue;
        last_word[argument] = word;
        plan.written |= static_cast<uint8_t>(1u << argument);
      }
    }
  }
  for (uint8_t a = 0; a < profile::kArguments; a++)
    if (plan.written >> a & 1) argument_writes.push_back({last_word[a], a});
  plan.slots = static_cast<uint16_t>(slot_plans.size() - plan.first_slot);
  plan.writes = static_cast<uint8_t>(argument_writes.size() - plan.first_write);
  const trace::Block& last = table.block(blocks.back());
  // `call next` only reads the program counter.
  if (trace::is_call(run.exit) && run.target != last.end) {
    plan.exit = Exit::call;
    plan.site = site_of(last);
  } else if (run.exit == RunExit::ret) {
    plan.exit = Exit::ret;
  }
  plan.words = run.words;
  plans[id.value] = plan;
}

void ValueCollector::State::finish(profile::Profile& into) {
  end_streams();
  if (!options.by_call_site)
    for (size_t id = 0; id < table.run_count(); id++)
      for (uint32_t i = 0; i < plans[id].slots; i++)
        slot_plans[plans[id].first_slot + i].entry->executed += plans[id].executions;
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  const auto at = [&](GuestAddr address, ModuleId module) { return builder.at(address, module); };

  std::map<ValueEntry*, std::vector<std::pair<uint32_t, ValueEntry*>>> contexts;
  for (const auto& [key, entry] : context_entries)
    contexts[key.first].push_back({key.second, entry});
  std::vector<std::pair<uint64_t, const InsnEntry*>> hottest;
  profile::ValueTable& values = mine.tables.values;
  const auto add_row = [&](const InsnKey& key, const InsnEntry& insn, const ValueEntry& entry) {
    if (entry.count == 0) return;
    profile::ValueRow row;
    row.at = at(GuestAddr(key.address), insn.module);
    row.bits = insn.bits;
    row.constant = insn.constant;
    row.figures = entry.figures();
    values.push_back(std::move(row));
  };
  for (const auto& [key, insn] : insn_entries) {
    add_row(key, insn, *insn.entry);
    for (const auto& [context, entry] : contexts[insn.entry]) {
      const size_t rows = values.size();
      add_row(key, insn, *entry);
      if (values.size() == rows || context == 0) continue;
      const CallSitePlace& site = sites[context - 1];
      values.back().has_context = true;
      values.back().context = at(site.returns_to, site.module);
    }
  }
  std::map<profile::CodeRef, const InsnEntry*> by_place;
  for (const auto& [key, insn] : insn_entries)
    by_place[at(GuestAddr(key.address), insn.module)] = &insn;
  std::vector<profile::ValueRow*> rows;
  for (profile::ValueRow& row : values)
    if (!row.constant) rows.push_back(&row);
  const auto kept = static_cast<ptrdiff_t>(std::min(kRowsWithText, rows.size()));
  std::partial_sort(
      rows.begin(), rows.begin() + kept, rows.end(),
      [](const auto* a, const auto* b) { return a->figures.count > b->figures.count; });
  for (auto row = rows.begin(); row != rows.begin() + kept; ++row) {
    const InsnEntry& insn = *by_place[(*row)->at];
    const auto code = table.code(table.block(insn.block));
    if (insn.offset_in_block + insn.length > code.size() || insn.length == 0) continue;
    (*row)->text = decoder::disassemble(code.subspan(insn.offset_in_block, insn.length),
                                        GuestAddr((*row)->at.offset));
  }

  for (const auto& [key, call] : arguments) {
    const CallSitePlace& site = sites[key >> 32];
    const trace::Block& callee = table.block(BlockId(static_cast<uint32_t>(key)));
    for (uint8_t a = 0; a < profile::kArguments; a++) {
      if (call.entries[a] == nullptr || call.entries[a]->count == 0) continue;
      mine.tables.arguments.push_back(
          {at(site.call, site.module), builder.at(callee), a, call.entries[a]->figures()});
    }
  }
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_value_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
