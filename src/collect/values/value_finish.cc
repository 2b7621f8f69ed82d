// SPDX-License-Identifier: MIT
//
// From entries to tables: what ValueCollector has at the end.
#include <algorithm>
#include <cmath>

#include "collect/table_builder.h"
#include "collect/values/callee_arguments.h"
#include "collect/values/value_state.h"

namespace shadowprof::collect {

namespace {

// Rows for which disassembly is kept: more than anybody reads.
constexpr size_t kRowsWithText = 2000;

profile::ValueType type_of(decoder::ElementType type) {
  switch (type) {
    case decoder::ElementType::f32:
      return profile::ValueType::f32;
    case decoder::ElementType::f64:
      return profile::ValueType::f64;
    case decoder::ElementType::integer:
      break;
  }
  return profile::ValueType::integer;
}

bool was_seen(const ValueEntry& entry) {
  return entry.count != 0 || (entry.window != nullptr && entry.window->stream.count != 0);
}

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

// How often a place has called each of its callees. Where each call was met, that was seen.
// Otherwise it is known how often the place has called; the calls that were not met went where
// those in windows did, or if there are none, where the first ones did.
void ValueCollector::State::count_calls() {
  const auto seen = [](const ArgumentsOfCall& call, CallSeen how) {
    return call.calls[static_cast<size_t>(how)];
  };
  struct Site {
    uint64_t executed = 0;
    std::array<uint64_t, 3> seen = {};
  };
  std::vector<Site> of_site(sites.size());
  for (size_t id = 0; id < table.run_count(); id++) {
    const trace::Run& run = table.run(RunId(static_cast<uint32_t>(id)));
    if (!trace::is_call(run.exit) || run.block_count == 0) continue;
    const auto site = site_by_address.find(table.block(table.blocks(run).back()).last_insn.value);
    if (site != site_by_address.end())
      of_site[site->second].executed += executions_of(id, options.executions, runs);
  }
  for (const auto& [key, call] : arguments)
    for (size_t how = 0; how < call.calls.size(); how++)
      of_site[key >> 32].seen[how] += call.calls[how];
  for (auto& [key, call] : arguments) {
    const Site& site = of_site[key >> 32];
    const uint64_t in_full = seen(call, CallSeen::in_full);
    uint64_t calls = in_full + seen(call, CallSeen::in_window) + seen(call, CallSeen::by_record);
    const size_t how = site.seen[1] != 0 ? 1 : 0;
    const uint64_t met = site.seen[0] + site.seen[1] + site.seen[2];
    if (site.executed > met && site.seen[how] != 0) {
      const auto rest = static_cast<double>(site.executed - site.seen[0]);
      const auto part = static_cast<double>(call.calls[how]) / static_cast<double>(site.seen[how]);
      calls = in_full + static_cast<uint64_t>(std::llround(rest * part));
    }
    for (ValueEntry* entry : call.entries)
      if (entry != nullptr) entry->executed = calls;
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
    if (!was_seen(entry)) return false;
    profile::ValueRow row;
    row.at = builder.at(GuestAddr(key.address), insn.module);
    row.part = key.part;
    row.bits = insn.bits;
    row.constant = insn.constant;
    row.loads_static = insn.loads_static;
    if (insn.element.kind != decoder::ElementResult::Register::none) {
      row.type = type_of(insn.element.type);
      row.elements = insn.element.elements == 1 ? uint8_t{0} : insn.element.elements;
    }
    row.figures = entry.figures(options.errors);
    entry.hotlist = {};
    entry.window.reset();
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
  CalleeArguments callees(table);
  for (const auto& [key, call] : arguments) {
    const CallSitePlace& site = sites[key >> 32];
    const BlockId entry(static_cast<uint32_t>(key));
    const trace::Block& callee = table.block(entry);
    const RegistersRead read = callees.read_by(entry);
    const ArgumentMask is_read = arguments_in(read.general, read.vectors);
    for (uint8_t a = 0; a < profile::kArguments; a++) {
      if (call.entries[a] == nullptr || !was_seen(*call.entries[a])) continue;
      if (!(is_read >> a & 1)) continue;
      rows.push_back({builder.at(site.call, site.module), builder.at(callee), a,
                      call.entries[a]->figures(options.errors)});
    }
  }
}

void ValueCollector::State::finish(profile::Profile& into) {
  sink.end_all();
  if (!options.errors)
    end_window();
  else if (open_number != 0)
    end_sample();
  if (!options.by_call_site) count_executions();
  count_calls();
  drop_plans();
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  add_value_rows(builder, mine.tables.values);
  add_argument_rows(builder, mine.tables.arguments);
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_value_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
