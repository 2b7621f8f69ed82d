// SPDX-License-Identifier: MIT
//
// What EdgeCollector has at the end, as tables.
#include <algorithm>

#include "collect/edges/edge_errors.h"
#include "collect/edges/edge_state.h"
#include "collect/table_builder.h"
#include "collect/thread_tables.h"

namespace shadowprof::collect {

using trace::RunExit;

// What is open ends. Returns the number of instructions.
uint64_t EdgeCollector::State::close_threads() {
  uint64_t instructions = 0;
  for (auto& [tid, thread] : threads) {
    make_current(thread);
    if (thread.has_pending && needs_pair(Facts::follow(cells.data()[thread.pending.run].facts)))
      edges_without_target++;
    pop_to(thread, 0, thread.clock);
    instructions += thread.clock;
  }
  return instructions;
}

// The threads, and how their shares differ from group to group.
void EdgeCollector::State::add_threads(const TableBuilder& builder, profile::Profile& mine) {
  std::vector<uint64_t> totals(table.run_count());
  for (uint32_t id = 0; id < totals.size(); id++) totals[id] = cells.data()[id].count;
  add_thread_tables(table, builder, totals, by_thread.counts(), mine);
  if (thread_counts.groups().size() < 2) return;
  std::vector<profile::ErrorSum> sums(mine.threads.size());
  profile::GroupSizes sizes;
  for (const GroupCounts::Group& group : thread_counts.groups()) {
    std::vector<double> executed(mine.threads.size());
    profile::GroupSize size{0, group.by_time};
    for (const auto& [number, count] : group.entries) {
      const ThreadRuns::Pair& pair = by_thread.pairs()[number];
      const auto insns = static_cast<double>(count * table.run(RunId(pair.run)).insns);
      executed[pair.thread] += insns;
      size.counts += insns;
    }
    for (size_t i = 0; i < sums.size(); i++) sums[i].add(executed[i], size);
    sizes.add(size);
  }
  if (sizes.all() == 0) return;
  for (size_t i = 0; i < sums.size(); i++)
    mine.threads[i].instructions_error = sums[i].error(
        sizes.worth(), sizes, static_cast<double>(mine.threads[i].instructions) / sizes.all());
}

void EdgeCollector::State::finish(profile::Profile& into) {
  const uint64_t recorded = close_threads();
  close_groups();
  settle_threads();
  const uint64_t instructions = options.weights ? weigh_counts() : recorded;

  profile::Profile mine;
  TableBuilder builder(table, mine);
  EdgeErrors errors(mine.tables, options.errors);
  std::unordered_map<uint32_t, uint64_t> through_stubs;  // by run: calls that its stub passed on
  pairs.for_each([&](const PairTable::Slot& slot, uint64_t inclusive) {
    const uint32_t id = PairTable::run_of(slot.key);
    const trace::Run& run = table.run(RunId(id));
    const trace::Block& from = table.block(table.blocks(run).back());
    const trace::Block& to = table.block(BlockId(PairTable::block_of(slot.key)));
    if (const auto pair = pair_numbers.find(slot.key); pair != pair_numbers.end())
      errors.begin(EdgeErrors::pair_source(pair->second));
    else
      errors.end();
    if (run.exit == RunExit::call)
      through_stubs[id] += slot.count;
    else
      builder.add_edge(from, builder.at(to), edge_kind_of(run.exit), slot.count);
    if (trace::is_call(run.exit))
      builder.add_call(from, builder.at(to), run.exit != RunExit::call, slot.count, inclusive);
  });
  for (uint32_t id = 0; id < table.run_count(); id++) {
    const uint64_t count = cells.data()[id].count;
    if (count == 0) continue;
    const trace::Run& run = table.run(RunId(id));
    errors.begin(EdgeErrors::run_source(id));
    builder.add_run(run, count);
    if (run.exit != RunExit::call || !options.calls) continue;
    const trace::Block& from = table.block(table.blocks(run).back());
    const auto callee = builder.resolve(run.target, from.module);
    if (!callee || run.target == from.end) continue;
    const auto stub = through_stubs.find(id);
    // Weights are rounded for each of them: the parts may be more than the whole by a few.
    const uint64_t passed_on = stub == through_stubs.end() ? 0 : std::min(count, stub->second);
    if (passed_on != 0) builder.add_entry(*callee, passed_on, 0);
    builder.add_call(from, *callee, false, count - passed_on, sites.data()[id].inclusive);
  }
  errors.end();
  errors.keep_order();
  for (uint32_t id = 0; options.calls && id < table.block_count(); id++) {
    const EntryState& entry = entries.data()[id];
    if (!entry.has_figures()) continue;
    builder.add_entry(builder.at(table.block(BlockId(id))), entry.other_invocations,
                      entry.inclusive);
  }
  builder.finish_blocks(options.calls);
  add_threads(builder, mine);
  if (options.contexts) contexts.finish(builder, table, context_counts.groups(), mine);
  errors.fill(group_counts.groups(), table, builder, mine);

  profile::Coverage& coverage = mine.coverage;
  coverage.samples = samples;
  coverage.instructions_profiled = instructions;
  const std::pair<const char*, uint64_t> events_seen[] = {
      {"returns_without_call", returns_without_call},
      {"calls_too_deep", calls_too_deep},
      {"edges_without_target", edges_without_target},
      {"edges_without_module", builder.edges_without_module},
      {"corrupt_chunks", corrupt_chunks},
      {"stacks_cut", stacks_cut}};
  for (const auto& [what, count] : events_seen)
    if (count != 0) coverage.events[what] += count;
  into.confidence.groups = mine.confidence.groups;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
