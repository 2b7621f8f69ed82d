// SPDX-License-Identifier: MIT
//
// How PathCollector and its automaton take turns. A path that begins as known ones do is the
// automaton's, until a record leads nowhere; then it is the collector's up to its end. All threads
// use the same nodes.
#include <algorithm>

#include "collect/paths/path_state.h"

namespace shadowprof::collect {

using trace::Word;

namespace {

// Entries between two looks at whether the automaton follows this many words at a time. Where it
// does not, the collector alone is faster, for so many records.
constexpr uint64_t kLookEvery = 1024;
constexpr uint64_t kWorthWords = 8;
constexpr uint64_t kRestRecords = uint64_t{1} << 18;
// Another automaton, when one is full, is not made more often.
constexpr uint64_t kRelearnWords = uint64_t{1} << 28;
// One of 64 blocks.
constexpr uint64_t kAskBelow = uint64_t{1} << 58;

}  // namespace

// The automaton does not look where paths are entered from.
bool PathCollector::State::time_to_ask() {
  known_use.asks = spread(++known_use.blocks) < kAskBelow;
  return known_use.asks;
}

// Follows the path of f.node, and those after it. Returns what comes next; when a record is longer
// than what there is, that is behind `end`.
const Word* PathCollector::State::follow_known(Flow& f, const Word* at, const Word* end) {
  while (f.node && at < end) {
    if (time_to_ask()) {
      leave_known(f);
      break;
    }
    const auto length =
        static_cast<size_t>(std::min<ptrdiff_t>(end - at, ptrdiff_t{KnownBlock::kWords}));
    Word* const block = known_block.words.data();
    std::copy_n(at, length, block);
    std::fill_n(block + length, PathCode::kMostWords, ~Word{0});
    uint32_t* sites_end = f.sites.open(KnownBlock::kWords);
    const Word* const reached = known->follow(*f.node, block, block + length, sites_end);
    f.sites.close(sites_end);
    at += reached - block;
    known_use.words += static_cast<size_t>(reached - block);
    if (reached < block + length) leave_known(f);
  }
  return at;
}

// A path has just begun at record `at`: is it the automaton's?
bool PathCollector::State::turns_to_known(Flow& f, uint32_t at) {
  const OpenPath& path = f.path;
  if (!known || path.since != at || path.blocks != 0 || path.skip != 0 || !path.whole) return false;
  if (known_use.asks || known_use.rests != 0) return false;
  f.node = known->begin(path.entered, batch.runs[at]);
  if (!f.node) return false;
  if (++known_use.entries % kLookEvery == 0) {
    if (known_use.words < kLookEvery * kWorthWords) known_use.rests = kRestRecords;
    known_use.words = 0;
  }
  return true;
}

// Makes of the node what the collector needs to go on with the path.
void PathCollector::State::leave_known(Flow& f) {
  PathAutomaton::Prefix prefix = known->prefix(*f.node);
  f.node.reset();
  f.last = Step::unknown;
  f.path = {};
  f.path.from = f.sites.at(prefix.callees.size());
  f.path.entered = prefix.entered;
  f.path.whole = true;
  f.path.end = prefix.list.size();
  for (const uint32_t id : prefix.list) {
    f.path.hash = extend_hash(f.path.hash, runs[id].mix);
    f.path.blocks += runs[id].blocks - (f.last == Step::same ? 1 : 0);
    f.last_run = id;
    f.last = runs[id].step;
  }
  f.elements = std::move(prefix.list);
  f.callees = std::move(prefix.callees);
}

void PathCollector::State::settle_known() {
  if (!known) return;
  known->take_counts([&](uint64_t hash, uint64_t count, PathAutomaton::Node node) {
    counts.count_more(hash, count, [&] {
      std::vector<uint32_t> list = known->prefix(node).list;
      list.insert(list.begin(), 0);
      return list;
    });
  });
}

void PathCollector::State::forget_known() {
  if (!known) return;
  settle_known();
  for (auto& [tid, thread] : threads) {
    if (thread.flow.node) leave_known(thread.flow);
    for (Flow& f : thread.interrupted)
      if (f.node) leave_known(f);
  }
  known->forget();
}

// The program may do something else now than when the automaton was made.
void PathCollector::State::relearn() {
  if (known_use.seen < known_use.relearns_at) return;
  known_use.relearns_at = known_use.seen + kRelearnWords;
  forget_known();
}

}  // namespace shadowprof::collect
