// SPDX-License-Identifier: MIT
//
// The passes over a batch of records; see edge_collector.h. How far ahead cells are prefetched was
// measured with bench/consumer.cc.
#include "collect/edge_collector.h"

#include <sys/mman.h>

#include "collect/edge_state.h"

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
  state_->consume(chunk);
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
  // Cells are hit at random all the time; fewer TLB misses. Only a hint, so failure is no error.
  ::madvise(cells.data(), cells.capacity() * sizeof(Cell), MADV_HUGEPAGE);
}

// A run's id appears in a trace only after the run was added; a cell whose run has no words is an
// id that was never given out.
void EdgeCollector::State::start_run(uint32_t id) {
  const trace::Run& run = table.run(RunId(id));
  if (run.words == 0 || run.block_count == 0) return;
  CHECK(run.insns < (1u << Facts::kInsnsBits), "run {} has {} instructions", id, run.insns);
  Follow follow = follow_of(run.exit);
  const trace::Block& last = table.block(table.blocks(run).back());
  if (options.calls && trace::is_call(run.exit)) {
    sites.data()[id].return_address = last.end.value;
    return_addresses.insert(last.end.value);
    // `call next` only reads the program counter: nothing returns from it.
    if (run.target == last.end) follow = Follow::no;
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
  cells.data()[id].facts = Facts::pack(run.first_block.value, run.insns, run.words, follow);
}

// Counts records from words[at] on until the batch is full, the words end or something is not a run
// record; returns where it stopped. Each event slot is written by the record that may need it and
// completed by the next one, so there is no branch on what a record is.
template <bool kIdsOnly>
size_t EdgeCollector::State::count_batch(GuestThread& thread, std::span<const Word> words,
                                         size_t at) {
  const size_t limit = words.size();
  Cell* const all_cells = cells.data();
  Event* event = events.data();
  *event = thread.pending;
  uint64_t clock = thread.clock;
  uint32_t pending = thread.has_pending ? 1 : 0;
  for (size_t n = 0; n < kBatch && at < limit; n++) {
    const Word id = words[at];
    if (id >= limits::kMaxRuns) [[unlikely]]
      break;
    if (at + kPrefetchRecords < limit)
      __builtin_prefetch(&all_cells[words[at + kPrefetchRecords] & (limits::kMaxRuns - 1)], 1);
    Cell& cell = all_cells[id];
    uint64_t facts = cell.facts;
    if (facts == 0) [[unlikely]] {
      start_run(id);
      facts = cell.facts;
      if (facts == 0) break;
      if (Facts::words(facts) != 1) ids_only = false;
    }
    if constexpr (kIdsOnly) {
      if (Facts::words(facts) != 1) [[unlikely]]
        break;
      at++;
    } else {
      if (Facts::words(facts) > limit - at) [[unlikely]]
        break;
      at += Facts::words(facts);
    }
    cell.count++;
    clock += Facts::insns(facts);
    event->successor = Facts::block(facts);
    event += pending;
    const uint32_t follow = Facts::follow(facts);
    event->clock = clock;
    event->run = Event::pack(id, follow);
    pending = follow != 0 ? 1 : 0;
  }
  thread.clock = clock;
  thread.pending = *event;
  thread.has_pending = pending != 0;
  const size_t count = static_cast<size_t>(event - events.data());
  find_pairs(events.data(), count);
  if (options.calls) follow_calls(thread, events.data(), count);
  return at;
}

void EdgeCollector::State::find_pairs(const Event* batch, size_t count) {
  // Room for two keys an event: a call through a stub makes another pair.
  if (const auto moved = pairs.reserve(2 * count); !moved.empty()) move_arcs(moved);
  for (size_t i = 0; i < count; i++) {
    if (!needs_pair(batch[i].follow())) continue;
    pairs.prefetch(PairTable::key(batch[i].run_id(), batch[i].successor));
  }
  for (size_t i = 0; i < count; i++) {
    if (!needs_pair(batch[i].follow())) continue;
    const uint32_t slot = pairs.find(PairTable::key(batch[i].run_id(), batch[i].successor));
    pairs.add(slot, 1);
    event_slots[i] = slot;
  }
}

void EdgeCollector::State::consume(const trace::Chunk& chunk) {
  GuestThread* thread = &threads[chunk.thread];
  const std::span<const Word> words = chunk.words;
  size_t at = 0;
  while (at < words.size()) {
    make_current(*thread);
    const size_t before = at;
    at = ids_only ? count_batch<true>(*thread, words, at) : count_batch<false>(*thread, words, at);
    if (at == words.size()) return;
    const Word head = words[at];
    if (trace::is_special(head)) {
      const size_t length = trace::special_length(head);
      if (length == 0 || length > words.size() - at ||
          !special(thread, words.subspan(at, length))) {
        corrupt_chunks++;
        thread->has_pending = false;
        return;
      }
      at += length;
    } else if (at == before && (head >= limits::kMaxRuns || cells.data()[head].facts == 0 ||
                                Facts::words(cells.data()[head].facts) > words.size() - at)) {
      corrupt_chunks++;
      thread->has_pending = false;
      return;
    }
  }
}

bool EdgeCollector::State::special(GuestThread*& thread, std::span<const Word> record) {
  const auto payload = record.subspan(1);
  switch (trace::special_kind(record[0])) {
    case trace::SpecialKind::sample_start:
      samples++;
      [[fallthrough]];
    case trace::SpecialKind::sample_end:
      end_activations(*thread);
      return true;
    case trace::SpecialKind::thread_switch:
      if (payload.empty()) return false;
      thread = &threads[Tid(static_cast<int32_t>(payload[0]))];
      return true;
    case trace::SpecialKind::gap:
      if (payload.empty()) return false;
      switch (static_cast<trace::GapReason>(payload[0])) {
        case trace::GapReason::signal_delivered:
          signal_delivered(*thread);
          return true;
        case trace::GapReason::signal_returned:
          signal_returned(*thread);
          return true;
        case trace::GapReason::native:
        case trace::GapReason::lost:
          if (thread->has_pending && thread->pending.follow() != Follow::enter)
            edges_without_target++;
          thread->has_pending = false;
          return true;
      }
      return false;
  }
  return false;
}

}  // namespace shadowprof::collect
