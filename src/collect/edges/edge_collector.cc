// SPDX-License-Identifier: MIT
//
// The passes over a batch of records; see edge_collector.h. How far ahead cells are prefetched was
// measured with bench/consumer.cc.
#include "collect/edges/edge_collector.h"

#include <algorithm>

#include "collect/edges/edge_state.h"
#include "collect/edges/stack_switch.h"

namespace shadowprof::collect {

using trace::RunExit;
using trace::Word;

namespace {

constexpr size_t kPrefetchRecords = 24;

Follow follow_of(RunExit exit) {
  switch (exit) {
    case RunExit::call:
      return Follow::call;
    case RunExit::indirect_call:
      return Follow::indirect_call;
    case RunExit::ret:
      return Follow::ret;
    case RunExit::indirect_jump:
      return Follow::indirect_jump;
    default:
      return Follow::no;
  }
}

}  // namespace

EdgeCollector::EdgeCollector(const trace::BlockTable& table, EdgeCollectorOptions options)
    : state_(std::make_unique<State>(table, options)) {}
EdgeCollector::~EdgeCollector() = default;
void EdgeCollector::consume(const trace::Chunk& chunk) {
  const uint64_t before = state_->instructions_read;
  state_->consume(chunk);
  std::atomic<uint64_t>* const so_far = state_->options.so_far;
  if (so_far != nullptr) so_far->fetch_add(state_->instructions_read - before);
}
void EdgeCollector::finish(profile::Profile& into) {
  state_->finish(into);
}

EdgeCollector::State::State(const trace::BlockTable& block_table,
                            EdgeCollectorOptions collector_options)
    : table(block_table),
      options(collector_options),
      cells(limits::kMaxRuns),
      entries(limits::kMaxBlocks),
      sites(limits::kMaxRuns) {
  cells.data()[kEnterRun].facts = Facts::pack(0, 0, 1, Follow::enter);
  cells.prefer_huge_pages();
}

// A run's id appears in a trace only after the run was added; a cell whose run has no words is an
// id that was never given out.
void EdgeCollector::State::start_run(uint32_t id) {
  const trace::Run& run = table.run(RunId(id));
  if (run.words == 0 || run.block_count == 0) return;
  SP_CHECK(run.insns <= UINT16_MAX, "run {} has {} instructions", id, run.insns);
  Follow follow = follow_of(run.exit);
  const trace::Block& last = table.block(table.blocks(run).back());
  if (options.calls && trace::is_call(run.exit)) {
    sites.data()[id].return_address = last.end.value;
    sites.data()[id].place = owners.place_behind_call(last.end.value);
    // `call next` only reads the program counter: nothing returns from it.
    if (run.target == last.end)
      follow = Follow::no;
    else if (run.exit == RunExit::call)
      note_called(run.target);
  } else if (run.exit == RunExit::call) {
    follow = Follow::no;
  }
  if (options.calls && run.exit == RunExit::jump) {
    // A key without runs: the target has been called already.
    const auto [waiting, first] = jumps.try_emplace(run.target.value);
    if (!first && waiting->second.empty())
      follow = Follow::tail_jump;
    else
      waiting->second.push_back(id);
  }
  if (options.calls && follow == Follow::indirect_jump && switches_stack(table, last))
    follow = Follow::stack_switch;
  cells.data()[id].facts = Facts::pack(run.first_block.value, run.insns, run.words, follow);
}

// Counts one record; false when it is none, or none that this variant can count. Each event slot is
// written by the record that may need it and completed by the next one, so there is no branch on
// what a record is.
template <bool kIdsOnly>
inline bool EdgeCollector::State::count_record(Counting& now) {
  const Word id = *now.at;
  if (id >= kEnterRun) [[unlikely]]
    return false;
  Cell& cell = cells.data()[id];
  uint64_t facts = cell.facts;
  if (kIdsOnly ? !Facts::one_word(facts) : facts == 0) [[unlikely]] {
    if (facts == 0) start_run(id);
    facts = cell.facts;
    if (facts == 0) return false;
    ids_only &= Facts::one_word(facts);
    if (kIdsOnly && !ids_only) return false;
  }
  if constexpr (kIdsOnly) {
    now.at++;
  } else {
    // A branch, so that where the next record is can be guessed before this one's cell is there.
    if (Facts::one_word(facts)) [[likely]] {
      now.at++;
    } else {
      if (Facts::words(facts) > static_cast<size_t>(now.end - now.at)) [[unlikely]]
        return false;
      now.at += Facts::words(facts);
    }
  }
  cell.count++;
  now.clock += Facts::insns(facts);
  now.event->successor = Facts::block(facts);
  now.event = reinterpret_cast<Event*>(reinterpret_cast<char*>(now.event) + now.pending);
  now.event->clock = now.clock;
  now.event->run = id;
  static_assert(sizeof(Event) == 16);
  now.pending = facts >> (Facts::kFollowed - 4) & sizeof(Event);
  return true;
}

// Counts records from words[at] on until the batch is full, the words end or something cannot be
// counted; returns where it stopped.
template <bool kIdsOnly>
size_t EdgeCollector::State::count_batch(GuestThread& thread, std::span<const Word> words,
                                         size_t at) {
  const Cell* const all_cells = cells.data();
  const Word* const end = words.data() + words.size();
  Counting now{words.data() + at, end, events.data(), thread.clock,
               thread.has_pending ? sizeof(Event) : 0};
  *now.event = thread.pending;
  const size_t left = words.size() - at;
  bool more = true;
  if (left > kPrefetchRecords) {
    // kBatch words hold at most kBatch records. Any address may be prefetched, so ids are not
    // checked for that.
    const Word* const stop = now.at + std::min(kBatch, left - kPrefetchRecords);
    while (now.at < stop) {
      __builtin_prefetch(all_cells + now.at[kPrefetchRecords], 1);
      more = count_record<kIdsOnly>(now);
      if (!more) [[unlikely]]
        break;
    }
  } else {
    while (more && now.at < end) more = count_record<kIdsOnly>(now);
  }
  instructions_read += now.clock - thread.clock;
  thread.clock = now.clock;
  thread.pending = *now.event;
  thread.has_pending = now.pending != 0;
  const size_t count = static_cast<size_t>(now.event - events.data());
  find_pairs(events.data(), count);
  if (options.calls) follow_calls(thread, events.data(), count);
  return static_cast<size_t>(now.at - words.data());
}

// Which events need a pair is as good as random, so they are picked without a branch.
void EdgeCollector::State::find_pairs(const Event* batch, size_t count) {
  // Room for two keys an event: a call through a stub makes another pair.
  if (const auto moved = pairs.reserve(2 * count); !moved.empty()) move_arcs(moved);
  uint32_t* const picked = picked_events.data();
  size_t n = 0;
  for (uint32_t i = 0; i < count; i++) {
    event_follows[i] = Facts::follow(cells.data()[batch[i].run].facts);
    picked[n] = i;
    n += needs_pair(event_follows[i]) ? 1 : 0;
  }
  for (size_t i = 0; i < n; i++)
    pairs.prefetch(PairTable::key(batch[picked[i]].run, batch[picked[i]].successor));
  for (size_t i = 0; i < n; i++) {
    const Event& event = batch[picked[i]];
    const uint32_t slot = pairs.find(PairTable::key(event.run, event.successor));
    pairs.add(slot, 1);
    event_slots[picked[i]] = slot;
  }
}

void EdgeCollector::State::switch_to(Tid thread) {
  if (by_thread.is_of(thread)) return;
  settle_threads();
  by_thread.switch_to(thread);
}

// What was counted up to now is the present thread's.
void EdgeCollector::State::settle_threads() {
  by_thread.settle(table.run_count(), [this](uint32_t run) { return cells.data()[run].count; });
}

void EdgeCollector::State::consume(const trace::Chunk& chunk) {
  switch_to(chunk.program_thread());
  GuestThread& thread = threads[chunk.thread];
  const std::span<const Word> words = chunk.words;
  size_t at = 0;
  while (at < words.size()) {
    make_current(thread);
    const size_t before = at;
    at = ids_only ? count_batch<true>(thread, words, at) : count_batch<false>(thread, words, at);
    if (at == words.size()) return;
    const Word head = words[at];
    if (trace::is_special(head)) {
      const size_t length =
          trace::take_special(words.subspan(at), [&](const auto& what) { on(thread, what); });
      if (length == 0) {
        corrupt_chunks++;
        thread.has_pending = false;
        return;
      }
      at += length;
    } else if (at == before && (head >= kEnterRun || cells.data()[head].facts == 0 ||
                                Facts::words(cells.data()[head].facts) > words.size() - at)) {
      corrupt_chunks++;
      thread.has_pending = false;
      return;
    }
  }
}

void EdgeCollector::State::on(GuestThread& thread, const trace::SampleStart& start) {
  samples++;
  by_thread.sample_began();
  sample_began(start.number());
  end_activations(thread);
  if (options.contexts) begin_stack(thread, start);
}

void EdgeCollector::State::on(GuestThread& thread, const trace::SampleEnd& end) {
  end_activations(thread);
  if (options.errors && end.ends_observation()) observation_ended();
}

void EdgeCollector::State::on(GuestThread& thread, trace::GapReason reason) {
  switch (reason) {
    case trace::GapReason::signal_delivered:
      return signal_delivered(thread);
    case trace::GapReason::signal_returned:
      return signal_returned(thread);
    case trace::GapReason::native:
    case trace::GapReason::lost:
      if (thread.has_pending && thread.pending.run != kEnterRun) edges_without_target++;
      thread.has_pending = false;
  }
}

}  // namespace shadowprof::collect
