// SPDX-License-Identifier: MIT
//
// Reading: see path_collector.h for what bounds a path, path_state.h for what is kept.
#include "collect/paths/path_collector.h"

#include <algorithm>

#include "collect/paths/path_state.h"

namespace shadowprof::collect {

using trace::RunExit;
using trace::Word;

PathCollector::PathCollector(const trace::BlockTable& table, PathCollectorOptions options)
    : state_(std::make_unique<State>(table, options)) {}
PathCollector::~PathCollector() = default;
void PathCollector::consume(const trace::Chunk& chunk) {
  state_->consume(chunk);
}
void PathCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

PathCollector::State::State(const trace::BlockTable& block_table,
                            PathCollectorOptions collector_options)
    : table(block_table),
      options(collector_options),
      counts(options.capacity_words) {
  if (options.scope == PathScope::interprocedural && options.learn) known.emplace(runs);
  if (known && !known->works()) known.reset();
  batch.factor[0] = 1;
  for (size_t i = 0; i < Batch::kRecords; i++) batch.factor[i + 1] = batch.factor[i] * kHashFactor;
}

Step PathCollector::State::step_of(const trace::Run& run, const trace::Block& last) const {
  switch (run.exit) {
    case RunExit::taken:
    case RunExit::jump:
      return run.target <= last.last_insn && table.module(last.module).range.contains(run.target)
                 ? Step::back_edge
                 : Step::plain;
    case RunExit::call:
      // `call next` only reads the program counter: nothing returns from it.
      return run.target == last.end ? Step::plain : Step::call;
    case RunExit::indirect_call:
      return Step::call;
    case RunExit::ret:
      return Step::ret;
    case RunExit::indirect_jump:
      return Step::indirect;
    case RunExit::split:
    case RunExit::native:
    case RunExit::interrupted:
      return Step::same;
    case RunExit::not_taken:
    case RunExit::syscall:
      break;
  }
  return Step::plain;
}

// A run's id appears in a trace only after the run was added; one without words was never given
// out.
void PathCollector::State::start_run(RunId id) {
  const trace::Run& run = table.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  const trace::Block& last = table.block(table.blocks(run).back());
  PathRun& own = runs[id.value];
  own.start = table.block(run.first_block).start.value;
  own.mix = mix_of(id.value);
  const auto blocks = table.blocks(run);
  own.blocks = 1;
  for (const BlockId b : blocks.first(blocks.size() - 1))
    if (!continues_in_run(table.block(b))) own.blocks++;
  own.step = step_of(run, last);
  own.joins = own.step == Step::same ? 1 : 0;
  own.steps = own.step > Step::same ? 1 : 0;
  own.words = run.words;
  if (own.step == Step::indirect) {
    own.site = runs.add_jump({last.last_insn.value, table.module(last.module).range});
  }
  if (own.step != Step::call) return;
  const auto [entry, is_new] = site_by_address.try_emplace(last.last_insn.value, 0);
  if (is_new) {
    sites.push_back({last.last_insn, last.end, last.module});
    entry->second = static_cast<uint32_t>(sites.size());
  }
  own.site = entry->second;
}

void PathCollector::State::begin_thread(Thread& thread) {
  for (Flow& f : thread.interrupted) drop(f);
  drop(thread.flow);
  thread = {};
  thread.started = true;
  begin_path(thread.flow, 0, options.whole_threads);
}

void PathCollector::State::consume(const trace::Chunk& chunk) {
  Thread& thread = threads[chunk.thread];
  if (!thread.started) begin_thread(thread);
  known_use.seen += chunk.words.size();
  if (known && known->full()) [[unlikely]]
    relearn();
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  while (at < end) {
    const Word* const before = at;
    const bool only_ids = ids_only;
    if (thread.flow.node) at = follow_known(thread.flow, at, end);
    if (at < end) at = follow_records(thread.flow, at, end);
    if (counts.full()) [[unlikely]] {
      settle_known();
      group_counts.renumber(counts.prune());
    }
    if (at != before || only_ids != ids_only) continue;
    if (!trace::is_special(*at)) break;
    const size_t length = trace::take_special({at, static_cast<size_t>(end - at)},
                                              [&](const auto& what) { on(thread, what); });
    if (length == 0) break;
    at += length;
  }
  if (at == end) return;
  corrupt_chunks++;
  drop(thread.flow);
  begin_path(thread.flow, 0, false);
}

// Takes one record; false when it is none. No branch depends on what it is.
template <bool kIdsOnly>
inline bool PathCollector::State::take_record(Filling& now) {
  const Word id = *now.at;
  if (id >= limits::kMaxRuns) [[unlikely]]
    return false;
  const PathRun& run = now.runs[id];
  if (run.words == 0) [[unlikely]] {
    start_run(RunId(id));
    ids_only &= run.words == 1;
    if (run.words == 0 || kIdsOnly != ids_only) return false;
  }
  if constexpr (kIdsOnly) {
    now.at++;
  } else {
    if (run.words > now.end - now.at) [[unlikely]]
      return false;
    now.at += run.words;
  }
  batch.runs[now.size] = id;
  now.sum.hash = extend_hash(now.sum.hash, run.mix);
  now.sum.blocks += run.blocks - now.joins;
  now.joins = run.joins;
  *++now.last = now.sum;
  *now.step = now.size++;
  now.step += run.steps;
  return true;
}

// Takes records until the batch is full, or what is next is none; returns that.
template <bool kIdsOnly>
const Word* PathCollector::State::fill_batch(Step last, const Word* at, const Word* end,
                                             size_t most) {
  constexpr ptrdiff_t kAhead = 16;
  batch.before[0] = {0, 0};
  Filling now{at,
              end,
              runs.data(),
              batch.before.data(),
              batch.step_at.data(),
              {0, 0},
              last == Step::same ? 1u : 0u,
              0};
  bool more = true;
  while (more && end - now.at > kAhead && now.size < most) {
    // Any address may be prefetched, so this is not checked to be an id.
    if constexpr (kIdsOnly) __builtin_prefetch(now.runs + now.at[kAhead]);
    more = take_record<kIdsOnly>(now);
  }
  while (more && now.at < end && now.size < most) more = take_record<kIdsOnly>(now);
  batch.size = now.size;
  batch.steps = static_cast<size_t>(now.step - batch.step_at.data());
  return now.at;
}

// Follows a batch, or as much of it as comes before a path that is known. Returns what comes next.
const Word* PathCollector::State::follow_records(Flow& f, const Word* at, const Word* end) {
  const bool only_ids = ids_only;
  const size_t most = known_use.asks ? Batch::kRecords : batch_most;
  counts.ask_all(known_use.asks);
  const Word* const next = only_ids ? fill_batch<true>(f.last, at, end, most)
                                    : fill_batch<false>(f.last, at, end, most);
  const size_t taken = follow_batch(f);
  known_use.asks = false;
  known_use.rests -= std::min(known_use.rests, taken);
  if (!f.node) {
    batch_most = std::min(2 * batch_most, Batch::kRecords);
    return next;
  }
  batch_most = Batch::kFewRecords;
  if (only_ids) return at + taken;
  for (size_t i = 0; i < taken; i++) at += runs[batch.runs[i]].words;
  return at;
}

// Returns how many records it took: all, unless a path begins that is known.
size_t PathCollector::State::follow_batch(Flow& f) {
  const Batch& b = batch;
  if (b.size == 0) return 0;
  f.path.since = 0;
  if (f.last > Step::same) take_step(f, 0, f.last_run, f.last);
  const auto end = static_cast<uint32_t>(b.size);
  // What the last record's step means, the next batch tells.
  const size_t steps = b.steps - (b.steps != 0 && b.step_at[b.steps - 1] + 1 == end ? 1 : 0);
  for (size_t i = 0; i < steps;) {
    const uint32_t at = b.step_at[i];
    const uint32_t run = b.runs[at];
    const Step step = runs[run].step;
    keep_limit(f, at + 1);
    take_step(f, at + 1, run, step);
    if (turns_to_known(f, at + 1)) return at + 1;
    i++;
    if (step == Step::back_edge) i = follow_loop(f, i, steps);
  }
  keep_limit(f, end);
  settle(f, end);
  f.last_run = b.runs[end - 1];
  f.last = runs[f.last_run].step;
  return end;
}

// A path has just begun at a back-edge. Takes those that end in another one, and have begun no
// call, from step `i` on; returns the first step that it has not taken.
inline size_t PathCollector::State::follow_loop(Flow& f, size_t i, size_t steps) {
  const Batch& b = batch;
  uint32_t since = f.path.since;
  for (; i < steps; i++) {
    const uint32_t at = b.step_at[i] + 1;
    if (runs[b.runs[at - 1]].step != Step::back_edge) break;
    const Batch::Before& begin = b.before[since];
    const Batch::Before& end = b.before[at];
    if (end.blocks - begin.blocks > kMaxPathBlocks) break;
    const uint64_t hash = end.hash - begin.hash * b.factor[at - since];
    const uint32_t executions = counts.count(hash, f.path.from);
    if (executions % kLooksEvery == 0) [[unlikely]] {
      f.path.since = since;
      count_slowly(f, at, hash, executions);
    }
    since = at;
  }
  f.path.since = since;
  return i;
}

void PathCollector::State::append(Flow& f, uint32_t element) {
  if (f.path.end == f.elements.size()) [[unlikely]]
    f.elements.resize(f.path.end + kMaxPathBlocks);
  f.elements[f.path.end++] = element;
}

// Takes over what the batch has of the path up to `at`.
void PathCollector::State::settle(Flow& f, uint32_t at) {
  OpenPath& path = f.path;
  path.hash = hash_at(path, at);
  path.blocks = blocks_at(path, at);
  for (uint32_t i = path.since; i < at; i++) append(f, batch.runs[i]);
  path.since = at;
}

// A path that is too long by record `at` ends within a run; the next one has the rest of it.
void PathCollector::State::split_at_limit(Flow& f, uint32_t at) {
  static_assert(limits::kMaxFragmentBlocks < kMaxPathBlocks);
  while (blocks_at(f.path, at) > kMaxPathBlocks) {
    uint32_t crosses = f.path.since;
    while (blocks_at(f.path, crosses + 1) <= kMaxPathBlocks) crosses++;
    settle(f, crosses);
    const uint32_t id = batch.runs[crosses];
    const auto own =
        static_cast<uint32_t>(batch.before[crosses + 1].blocks - batch.before[crosses].blocks);
    const uint32_t kept = kMaxPathBlocks - f.path.blocks;
    const uint32_t in_run = runs[id].blocks - own + kept;  // a block that goes on is not new
    if (in_run != 0) {
      append(f, id);
      append(f, kKeep | in_run);
      f.path.hash = extend_hash(extend_hash(f.path.hash, runs[id].mix), mix_of(kKeep | in_run));
    }
    end_path(f, crosses, false);
    begin_path(f, crosses, f.path.whole, in_run);
    settle(f, crosses + 1);
    f.path.blocks = own - kept;
  }
}

// What the exit of the run before record `at` means for the path.
inline void PathCollector::State::take_step(Flow& f, uint32_t at, uint32_t last_run, Step last) {
  if (last == Step::call) f.sites.push(runs[last_run].site);
  if (last == Step::ret) f.sites.pop();
  if (options.scope == PathScope::intra) {
    if (last == Step::call) return enter_frame(f, at);
    if (last == Step::ret) return leave_frame(f, at);
  }
  take_turn(f, at, last_run);
}

inline void PathCollector::State::take_turn(Flow& f, uint32_t at, uint32_t last_run) {
  const uint64_t next = runs[batch.runs[at]].start;
  const Turn turn = runs.turn(last_run, next, f.callees.size(), [&](uint64_t function) {
    return f.path.entered == function ||
           std::find(f.callees.begin(), f.callees.end(), function) != f.callees.end();
  });
  switch (turn) {
    case Turn::on: break;
    case Turn::call: f.callees.push_back(next); break;
    case Turn::ret: f.callees.pop_back(); break;
    case Turn::end:
      end_path(f, at, true);
      begin_path(f, at, true);
      break;
    case Turn::recursion:
    case Turn::ret_from_first:
      end_path(f, at, false);
      begin_path(f, at, f.path.whole);
      if (turn == Turn::recursion) f.path.entered = next;
  }
}

// With scope `intra`.
void PathCollector::State::enter_frame(Flow& f, uint32_t at) {
  if (f.callers.size() >= kMaxDepth) return;
  settle(f, at);
  f.path.returns_to = sites[f.sites.at(0) - 1].returns_to.value;
  f.callers.push_back(f.path);
  f.path.first = f.path.end;
  begin_path(f, at, true);
}

void PathCollector::State::leave_frame(Flow& f, uint32_t at) {
  end_path(f, at, false);
  // Frames that were left without a return (longjmp, exceptions) are passed over.
  const uint64_t returned_to = runs[batch.runs[at]].start;
  size_t depth = f.callers.size();
  while (depth > 0 && f.callers[depth - 1].returns_to != returned_to) depth--;
  if (depth == 0) {
    dropped += f.callers.size();
    f.callers.clear();
    f.path.first = 0;
    begin_path(f, at, false);
    return;
  }
  dropped += f.callers.size() - depth;
  f.path = f.callers[depth - 1];
  f.path.since = at;
  f.callers.resize(depth - 1);
}

inline void PathCollector::State::begin_path(Flow& f, uint32_t at, bool whole, uint32_t skip) {
  OpenPath& path = f.path;
  path.hash = skip;
  path.end = path.first;
  path.blocks = 0;
  path.since = at;
  path.from = f.sites.at(0);
  path.skip = skip;
  path.entered = 0;
  path.whole = whole;
  f.callees.clear();
}

// `synchronises`: this boundary would be one wherever the trace began.
inline void PathCollector::State::end_path(Flow& f, uint32_t at, bool synchronises) {
  const OpenPath& path = f.path;
  if (!path.whole) {
    dropped += synchronises ? 1 : 0;
    return;
  }
  if (blocks_at(path, at) == 0) return;
  const uint64_t hash = hash_at(path, at);
  const uint32_t executions = counts.count(hash, path.from);
  if (executions % kLooksEvery == 0) [[unlikely]]
    count_slowly(f, at, hash, executions);
}

// At the first of so many executions the path is added; at others it is time to learn it.
void PathCollector::State::count_slowly(const Flow& f, uint32_t at, uint64_t hash,
                                        uint32_t executions) {
  const OpenPath& path = f.path;
  if (executions != 0 && (!known || known_use.asks)) return;
  std::vector<uint32_t> list = {path.skip};
  list.insert(list.end(), f.elements.begin() + static_cast<ptrdiff_t>(path.first),
              f.elements.begin() + static_cast<ptrdiff_t>(path.end));
  list.insert(list.end(), batch.runs.begin() + path.since, batch.runs.begin() + at);
  if (executions == 0) {
    counts.add(hash, list, path.from);
  } else if (path.skip == 0 && !(list.back() & kKeep)) {
    known->learn(path.entered, std::span(list).subspan(1), hash);
  }
}

void PathCollector::State::drop(Flow& f) {
  dropped += f.callers.size() + (f.node || f.path.blocks != 0 ? 1 : 0);
  f = {};
}

// Nothing of the path is missing: what would come next is not asked for.
void PathCollector::State::end_region(Flow& f) {
  if (f.node) leave_known(f);
  end_path(f, f.path.since, false);
  begin_path(f, f.path.since, false);
}

void PathCollector::State::look_at_counts() {
  settle_known();
  const std::vector<uint64_t> now = counts.counts_by_list();
  group_counts.look(now.size(), [&](size_t i) { return now[i]; });
}

void PathCollector::State::sample_began(uint64_t number) {
  if (group_counts.is_other_kind(number)) look_at_counts();
  if (group_counts.is_next(number) && group_counts.due()) look_at_counts();
  group_counts.began(number);
}

void PathCollector::State::on(Thread& thread, const trace::SampleStart& start) {
  begin_thread(thread);
  sample_began(start.number());
}

void PathCollector::State::on(Thread& thread, const trace::SampleEnd& end) {
  if (end.reason == trace::EndReason::left_region) end_region(thread.flow);
  begin_thread(thread);
  if (options.errors && end.ends_observation() && group_counts.due()) look_at_counts();
}

void PathCollector::State::on(Thread& thread, trace::GapReason reason) {
  switch (reason) {
    case trace::GapReason::signal_delivered:
      if (thread.interrupted.size() >= kMaxInterrupted) {
        drop(thread.interrupted.front());
        thread.interrupted.erase(thread.interrupted.begin());
      }
      thread.interrupted.push_back(std::move(thread.flow));
      thread.flow = {};
      return begin_path(thread.flow, 0, true);
    case trace::GapReason::signal_returned:
      drop(thread.flow);
      if (thread.interrupted.empty()) return begin_path(thread.flow, 0, false);
      thread.flow = std::move(thread.interrupted.back());
      thread.interrupted.pop_back();
      return;
    case trace::GapReason::native:
    case trace::GapReason::lost:
      drop(thread.flow);
      return begin_path(thread.flow, 0, false);
  }
}

}  // namespace shadowprof::collect
