// SPDX-License-Identifier: MIT
//
// From entries to tables: what ValueCollector has at the end.
#include <algorithm>

#include "collect/table_builder.h"
#include "collect/value_state.h"
#include "collect/vector_arguments.h"

namespace shadowprof::collect {

namespace {

// Rows for which disassembly is kept: more than anybody reads.
constexpr size_t kRowsWithText = 2000;

}  // namespace

void ValueCollector::State::count_executions() {
  for (size_t id = 0; id < table.run_count(); id++) {
    const uint64_t executions = executions_of(id, options.executions, runs);
    if (executions == 0) continue;
    const trace::Run& run = table.run(RunId(static_cast<uint32_t>(id)));
    uint32_t left = run.insns;
    for (const BlockId b : table.blocks(run)) {
      const uint32_t count = std::min<uint32_t>(left, table.block(b).insns);
      left -= count;
      if (first_insn_of_block[b.value] == 0) continue;
      for (uint32_t i = 0; i < count; i++) {
        for (ValueEntry* entry : insns[first_insn_of_block[b.value] - 1 + i].entries)
          if (entry != nullptr) entry->executed += executions;
      }
    }
  }
}

// There may be a million rows: each is made from an entry whose hotlist goes at once, and all that
// only records needed goes before the first of them.
void ValueCollector::State::drop_plans() {
  runs.release();
  plans.release();
  insns.clear();
  slot_plans = {};
  compare_plans = {};
  compare_facts = {};
  argument_writes = {};
  slots_by_context = {};
}

void ValueCollector::State::add_value_rows(const TableBuilder& builder,
                                           profile::ValueTable& values) {
  std::unordered_map<ValueEntry*, std::vector<std::pair<uint32_t, ValueEntry*>>> contexts;
  for (const auto& [key, entry] : context_entries)
    contexts[key.first].push_back({key.second, entry});
  std::vector<const InsnEntry*> insn_of_row;
  const auto add_row = [&](const InsnKey& key, const InsnEntry& insn, ValueEntry& entry) {
    if (entry.count == 0) return false;
    profile::ValueRow row;
    row.at = builder.at(GuestAddr(key.address), insn.module);
    row.part = key.part;
    row.bits = insn.bits;
    row.constant = insn.constant;
    row.figures = entry.figures();
    entry.hotlist = {};
    values.push_back(std::move(row));
    insn_of_row.push_back(&insn);
    return true;
  };
  values.reserve(entries.size());
  for (const auto& [key, insn] : insn_entries) {
    add_row(key, insn, *insn.entry);
    const auto in_context = contexts.find(insn.entry);
    if (in_context == contexts.end()) continue;
    for (const auto& [context, entry] : in_context->second) {
      if (!add_row(key, insn, *entry) || context == 0) continue;
      const CallSitePlace& site = sites[context - 1];
      values.back().has_context = true;
      values.back().context = builder.at(site.returns_to, site.module);
    }
  }
  disassemble_hottest(values, insn_of_row);
}

void ValueCollector::State::disassemble_hottest(
    profile::ValueTable& values, const std::vector<const InsnEntry*>& insn_of_row) const {
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < values.size(); i++)
    if (!values[i].constant) rows.push_back(i);
  const auto kept = static_cast<ptrdiff_t>(std::min(kRowsWithText, rows.size()));
  std::partial_sort(rows.begin(), rows.begin() + kept, rows.end(), [&](uint32_t a, uint32_t b) {
    return values[a].figures.count > values[b].figures.count;
  });
  for (auto i = rows.begin(); i != rows.begin() + kept; ++i) {
    const InsnEntry& insn = *insn_of_row[*i];
    const auto code = table.code(table.block(insn.block));
    if (insn.offset_in_block + insn.length > code.size() || insn.length == 0) continue;
    values[*i].text = decoder::disassemble(code.subspan(insn.offset_in_block, insn.length),
                                           GuestAddr(values[*i].at.offset));
  }
}

void ValueCollector::State::add_argument_rows(const TableBuilder& builder,
                                              profile::ArgumentTable& rows) const {
  VectorArguments vectors(table);
  for (const auto& [key, call] : arguments) {
    const CallSitePlace& site = sites[key >> 32];
    const BlockId entry(static_cast<uint32_t>(key));
    const trace::Block& callee = table.block(entry);
    for (uint8_t a = 0; a < profile::kArguments; a++) {
      if (call.entries[a] == nullptr || call.entries[a]->count == 0) continue;
      if (a >= profile::kIntegerArguments &&
          !(vectors.read_by(entry) >> (a - profile::kIntegerArguments) & 1))
        continue;
      rows.push_back({builder.at(site.call, site.module), builder.at(callee), a,
                      call.entries[a]->figures()});
    }
  }
}

void ValueCollector::State::finish(profile::Profile& into) {
  end_streams();
  if (!options.by_call_site) count_executions();
  drop_plans();
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  add_value_rows(builder, mine.tables.values);
  add_argument_rows(builder, mine.tables.arguments);
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_value_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
