// SPDX-License-Identifier: MIT
//
// What EdgeCollector knows of each sample: for the errors of its counts, and to count each sample
// for as much as it stands for.
#include <algorithm>

#include "collect/edges/edge_errors.h"
#include "collect/edges/edge_state.h"

namespace shadowprof::collect {
namespace {

// Counts that have no errors, by numbers of runs, blocks, pairs and contexts.
enum Other : uint8_t { kSite, kEntry, kInvocations, kPair, kContextCalls, kOthers };

}  // namespace

void EdgeCollector::State::sample_began(uint64_t number) {
  if (group_counts.is_other_kind(number)) look_at_counts({true, true, true, true});
  if (group_counts.is_next(number)) observation_ended();
  for (GroupCounts* counts : {&group_counts, &context_counts, &other_counts, &thread_counts})
    counts->began(number);
}

void EdgeCollector::State::observation_ended() {
  look_at_counts(
      {group_counts.due(), context_counts.due(), other_counts.due(), thread_counts.due()});
}

void EdgeCollector::State::close_groups() {
  if (!options.errors) return;
  look_at_counts({true, true, true, true});
  for (GroupCounts* counts : {&group_counts, &context_counts, &other_counts, &thread_counts})
    counts->close();
}

void EdgeCollector::State::look_at_counts(Due due) {
  if (options.contexts && due.contexts)
    context_counts.look(contexts.node_count(),
                        [&](size_t node) { return contexts.instructions(node); });
  due.others = due.others && options.weights;
  if (due.edges || due.others) look_at_pairs();
  if (due.edges)
    group_counts.look(source_count(), [&](size_t source) {
      if (source % 2 == 0) return cells.data()[source / 2].count;
      return source / 2 < pair_counts.size() ? pair_counts[source / 2].count : 0;
    });
  if (due.others)
    other_counts.look(other_count(), [&](size_t i) { return other(i / kOthers, i % kOthers); });
  if (due.threads) {
    settle_threads();
    const std::vector<ThreadRuns::Pair>& pairs_now = by_thread.pairs();
    thread_counts.look(pairs_now.size(), [&](size_t i) { return pairs_now[i].count; });
  }
}

void EdgeCollector::State::look_at_pairs() {
  pairs.for_each([&](const PairTable::Slot& slot, uint64_t inclusive) {
    const auto [at, added] =
        pair_numbers.try_emplace(slot.key, static_cast<uint32_t>(pair_counts.size()));
    if (added) pair_counts.emplace_back();
    pair_counts[at->second] = {slot.count, inclusive};
  });
}

// As EdgeErrors numbers them.
size_t EdgeCollector::State::source_count() const {
  return 2 * std::max(table.run_count(), pair_counts.size());
}

size_t EdgeCollector::State::other_count() const {
  return kOthers * std::max({table.run_count(), table.block_count(), pair_counts.size(),
                             contexts.node_count()});
}

uint64_t EdgeCollector::State::other(size_t i, size_t kind) const {
  switch (kind) {
    case kSite:
      return i < table.run_count() ? sites.data()[i].inclusive : 0;
    case kEntry:
      return i < table.block_count() ? entries.data()[i].inclusive : 0;
    case kInvocations:
      return i < table.block_count() ? entries.data()[i].other_invocations : 0;
    case kPair:
      return i < pair_counts.size() ? pair_counts[i].inclusive : 0;
    default:
      return i < contexts.node_count() ? contexts.calls(i) : 0;
  }
}

// What samples are worth, of all of them. Returns the number of instructions.
uint64_t EdgeCollector::State::weigh_counts() {
  const SampleWeights& weights = *options.weights;
  const std::vector<double> more = group_counts.weigh(weights, source_count());
  const std::vector<double> others = other_counts.weigh(weights, other_count());
  uint64_t instructions = 0;
  for (uint32_t id = 0; id < table.run_count(); id++) {
    Cell& cell = cells.data()[id];
    CallSite& site = sites.data()[id];
    cell.count = weighted(cell.count, more[EdgeErrors::run_source(id)]);
    site.inclusive = weighted(site.inclusive, others[kOthers * id + kSite]);
    instructions += cell.count * table.run(RunId(id)).insns;
  }
  for (uint32_t id = 0; id < table.block_count(); id++) {
    EntryState& entry = entries.data()[id];
    entry.inclusive = weighted(entry.inclusive, others[kOthers * id + kEntry]);
    entry.other_invocations =
        weighted(entry.other_invocations, others[kOthers * id + kInvocations]);
  }
  pairs.change_each([&](PairTable::Slot& slot, uint64_t& inclusive) {
    const auto number = pair_numbers.find(slot.key);
    if (number == pair_numbers.end()) return;
    slot.count = weighted(slot.count, more[EdgeErrors::pair_source(number->second)]);
    inclusive = weighted(inclusive, others[kOthers * number->second + kPair]);
  });
  weigh_contexts(others, instructions);
  weigh_threads();
  return instructions;
}

void EdgeCollector::State::weigh_threads() {
  std::vector<ThreadRuns::Pair>& of_threads = by_thread.pairs();
  const std::vector<double> more = thread_counts.weigh(*options.weights, of_threads.size());
  for (size_t i = 0; i < of_threads.size(); i++)
    of_threads[i].count = weighted(of_threads[i].count, more[i]);
}

// Together they have all instructions: what was rounded, or too little to be known of each sample,
// is shared out in proportion.
void EdgeCollector::State::weigh_contexts(const std::vector<double>& others,
                                          uint64_t instructions) {
  const size_t nodes = contexts.node_count();
  const std::vector<double> more = context_counts.weigh(*options.weights, nodes);
  uint64_t sum = 0;
  for (size_t node = 0; node < nodes; node++) {
    const uint64_t calls = weighted(contexts.calls(node), others[kOthers * node + kContextCalls]);
    contexts.set(node, weighted(contexts.instructions(node), more[node]), calls);
    sum += contexts.instructions(node);
  }
  if (sum == 0) return;
  const long double scale = static_cast<long double>(instructions) / static_cast<long double>(sum);
  uint64_t up_to = 0, given = 0;
  for (size_t node = 0; node < nodes; node++) {
    up_to += contexts.instructions(node);
    const auto part = static_cast<uint64_t>(static_cast<long double>(up_to) * scale);
    const uint64_t due = up_to == sum ? instructions : std::min(part, instructions);
    contexts.set(node, due - given, contexts.calls(node));
    given = due;
  }
}

}  // namespace shadowprof::collect
