// SPDX-License-Identifier: MIT
//
// Reading: see path_collector.h for what bounds a path, path_state.h for what is kept.
#include "collect/path_collector.h"

#include <algorithm>

#include "collect/path_state.h"

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
      runs(limits::kMaxRuns),
      trie(options.capacity) {}

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
  own.words = run.words;
  const auto blocks = table.blocks(run);
  own.blocks = 1;
  for (const BlockId b : blocks.first(blocks.size() - 1))
    if (!continues_in_run(table.block(b))) own.blocks++;
  own.step = step_of(run, last);
  if (own.step != Step::call) return;
  const auto [known, is_new] = site_by_address.try_emplace(last.last_insn.value, 0);
  if (is_new) {
    sites.push_back({last.last_insn, last.end, last.module});
    known->second = static_cast<uint32_t>(sites.size());
  }
  own.site = known->second;
}

void PathCollector::State::begin_thread(Thread& thread) {
  for (Flow& f : thread.interrupted) drop(f);
  drop(thread.flow);
  thread = {};
  thread.started = true;
  begin_path(thread.flow, options.whole_threads);
}

void PathCollector::State::consume(const trace::Chunk& chunk) {
  Thread* thread = &threads[chunk.thread];
  if (!thread->started) begin_thread(*thread);
  const Word* at = chunk.words.data();
  const Word* const end = at + chunk.words.size();
  while (at < end) {
    at = follow(thread->flow, at, end);
    if (at == end) break;
    const Word id = *at;
    const auto left = static_cast<size_t>(end - at);
    if (trace::is_special(id)) {
      const size_t length = trace::special_length(id);
      if (length == 0 || length > left || !special(thread, {at, length})) break;
      at += length;
      continue;
    }
    if (id >= limits::kMaxRuns) break;
    PathRun& run = runs[id];
    if (run.step == Step::unknown) [[unlikely]] {
      start_run(RunId(id));
      if (run.step == Step::unknown) break;
    }
    if (run.words > left) break;
    record(thread->flow, id, run);
    at += run.words;
  }
  if (at == end) return;
  corrupt_chunks++;
  drop(thread->flow);
  begin_path(thread->flow, false);
}

// Records as long as nothing but back-edges happens, which is nearly always: the path is in
// registers here. Returns the first record that needs more than that; it has not been taken then.
const Word* PathCollector::State::follow(Flow& f, const Word* at, const Word* end) {
  if (!f.path.whole || f.last > Step::back_edge) return at;
  uint32_t node = f.path.node;
  uint32_t blocks = f.path.blocks;
  Step last = f.last;
  const uint32_t from = f.sites.empty() ? 0 : f.sites.back();
  while (at < end) {
    const Word id = *at;
    if (id >= limits::kMaxRuns) break;
    PathRun& run = runs[id];
    if (run.step == Step::unknown || run.words > end - at) break;
    if (last == Step::back_edge) {
      if (trie.full()) break;
      if (blocks != 0) trie.count(node, f.path.from);
      f.path.from = from;
      f.path.entered = 0;
      f.callees.clear();
      node = blocks = 0;
      last = Step::plain;
    }
    const uint32_t more = run.blocks - (last == Step::same ? 1 : 0);
    if (blocks + more > kMaxPathBlocks) break;
    blocks += more;
    if (node != 0) {
      node = trie.child(node, id);
    } else {
      if (run.first_node == 0) run.first_node = trie.child(0, id);
      node = run.first_node;
    }
    f.last_run = id;
    last = run.step;
    at += run.words;
    if (last > Step::back_edge) break;
  }
  f.path.node = node;
  f.path.blocks = blocks;
  f.last = last;
  return at;
}

void PathCollector::State::record(Flow& f, uint32_t id, PathRun& run) {
  const bool continues = f.last == Step::same;
  if (f.last > Step::same) take_step(f, run);
  const uint32_t blocks = run.blocks - (continues ? 1 : 0);
  if (f.path.blocks + blocks > kMaxPathBlocks) [[unlikely]]
    append_across_limit(f, id, run, blocks);
  else
    append(f, id, run, blocks);
  f.last_run = id;
  f.last = run.step;
}

void PathCollector::State::append(Flow& f, uint32_t id, PathRun& run, uint32_t blocks) {
  OpenPath& path = f.path;
  path.blocks += blocks;
  if (!path.whole) return;
  if (path.node != 0) {
    path.node = trie.child(path.node, id);
  } else {
    if (run.first_node == 0) run.first_node = trie.child(0, id);
    path.node = run.first_node;
  }
}

// The path ends within the run; the next one has the rest of it.
void PathCollector::State::append_across_limit(Flow& f, uint32_t id, PathRun& run,
                                               uint32_t blocks) {
  const uint32_t kept = kMaxPathBlocks - f.path.blocks;
  const uint32_t in_run = run.blocks - blocks + kept;  // a block that goes on is not new
  static_assert(limits::kMaxFragmentBlocks < kMaxPathBlocks);
  if (in_run != 0) append(f, id, run, kept);
  end_path(f, false, in_run);
  begin_path(f, f.path.whole, in_run);
  append(f, id, run, blocks - kept);
}

void PathCollector::State::take_step(Flow& f, const PathRun& next) {
  switch (f.last) {
    case Step::back_edge:
      end_path(f, true);
      begin_path(f, true);
      break;
    case Step::indirect:
      if (!is_back_edge(f.last_run, next.start)) break;
      end_path(f, true);
      begin_path(f, true);
      break;
    case Step::call:
      enter(f, next);
      break;
    case Step::ret:
      leave(f, next);
      break;
    default:
      break;
  }
}

bool PathCollector::State::is_back_edge(uint32_t run, uint64_t to) const {
  const trace::Block& last = table.block(table.blocks(table.run(RunId(run))).back());
  return to <= last.last_insn.value && table.module(last.module).range.contains(GuestAddr(to));
}

void PathCollector::State::enter(Flow& f, const PathRun& callee) {
  const uint32_t site = runs[f.last_run].site;
  if (f.sites.size() < kMaxDepth) f.sites.push_back(site);
  if (options.scope == PathScope::intra) {
    if (f.callers.size() >= kMaxDepth) return;
    f.path.returns_to = sites[site - 1].returns_to.value;
    f.callers.push_back(f.path);
    begin_path(f, true);
    return;
  }
  const bool recursive =
      f.path.entered == callee.start ||
      std::find(f.callees.begin(), f.callees.end(), callee.start) != f.callees.end();
  if (!recursive) {
    f.callees.push_back(callee.start);
    return;
  }
  end_path(f, false);
  begin_path(f, f.path.whole);
  f.path.entered = callee.start;
}

void PathCollector::State::leave(Flow& f, const PathRun& next) {
  if (!f.sites.empty()) f.sites.pop_back();
  if (options.scope == PathScope::interprocedural) {
    if (!f.callees.empty()) {
      f.callees.pop_back();
      return;
    }
    end_path(f, false);
    begin_path(f, f.path.whole);
    return;
  }
  end_path(f, false);
  // Frames that were left without a return (longjmp, exceptions) are passed over.
  size_t depth = f.callers.size();
  while (depth > 0 && f.callers[depth - 1].returns_to != next.start) depth--;
  if (depth == 0) {
    dropped += f.callers.size();
    f.callers.clear();
    begin_path(f, false);
    return;
  }
  dropped += f.callers.size() - depth;
  f.path = f.callers[depth - 1];
  f.callers.resize(depth - 1);
}

void PathCollector::State::begin_path(Flow& f, bool whole, uint32_t skip) {
  f.path = {};
  f.path.node = skip;
  f.path.from = f.sites.empty() ? 0 : f.sites.back();
  f.path.whole = whole;
  f.callees.clear();
}

// `synchronises`: this boundary would be one wherever the trace began.
void PathCollector::State::end_path(Flow& f, bool synchronises, uint32_t keep) {
  if (!f.path.whole) {
    dropped += synchronises ? 1 : 0;
    return;
  }
  if (f.path.blocks == 0) return;
  if (keep != 0) f.path.node = trie.child(f.path.node, kKeep | keep);
  trie.count(f.path.node, f.path.from);
  if (trie.full()) [[unlikely]]
    prune();
}

void PathCollector::State::prune() {
  std::vector<uint32_t*> open;
  const auto note = [&](Flow& f) {
    open.push_back(&f.path.node);
    for (OpenPath& caller : f.callers) open.push_back(&caller.node);
  };
  for (auto& [tid, thread] : threads) {
    note(thread.flow);
    for (Flow& f : thread.interrupted) note(f);
  }
  trie.prune(open);
  for (size_t id = 0; id < table.run_count(); id++) runs[id].first_node = 0;
}

void PathCollector::State::drop(Flow& f) {
  dropped += f.callers.size() + (f.path.blocks != 0 ? 1 : 0);
  f = {};
}

bool PathCollector::State::special(Thread*& thread, std::span<const Word> record) {
  switch (trace::special_kind(record[0])) {
    case trace::SpecialKind::sample_start:
    case trace::SpecialKind::sample_end:
      begin_thread(*thread);
      return true;
    case trace::SpecialKind::thread_switch:
      if (record.size() < 2) return false;
      thread = &threads[Tid(static_cast<int32_t>(record[1]))];
      if (!thread->started) begin_thread(*thread);
      return true;
    case trace::SpecialKind::gap:
      break;
  }
  if (trace::special_kind(record[0]) != trace::SpecialKind::gap || record.size() < 2) return false;
  switch (static_cast<trace::GapReason>(record[1])) {
    case trace::GapReason::signal_delivered:
      if (thread->interrupted.size() >= kMaxInterrupted) {
        drop(thread->interrupted.front());
        thread->interrupted.erase(thread->interrupted.begin());
      }
      thread->interrupted.push_back(std::move(thread->flow));
      thread->flow = {};
      begin_path(thread->flow, true);
      return true;
    case trace::GapReason::signal_returned:
      drop(thread->flow);
      if (thread->interrupted.empty()) {
        begin_path(thread->flow, false);
      } else {
        thread->flow = std::move(thread->interrupted.back());
        thread->interrupted.pop_back();
      }
      return true;
    case trace::GapReason::native:
    case trace::GapReason::lost:
      drop(thread->flow);
      begin_path(thread->flow, false);
      return true;
  }
  return false;
}

}  // namespace shadowprof::collect
