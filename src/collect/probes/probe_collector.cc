// SPDX-License-Identifier: MIT
#include "collect/probes/probe_collector.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

#include "collect/loads/stamp_cost.h"
#include "collect/probes/probe_counts.h"
#include "collect/probes/probe_plan.h"
#include "collect/probes/probe_stacks.h"
#include "collect/probes/probe_thread.h"
#include "collect/table_builder.h"
#include "profile/compare/limit_rule.h"
#include "profile/tables/probe_table.h"

namespace shadowprof::collect {
namespace {

using trace::Word;

constexpr size_t kMostThreads = 64;
constexpr size_t kMostRows = 20'000;  // of a probe, in the file

// Instead of a stack's number: there is no room for the stack.
constexpr uint32_t kNoRoom = UINT32_MAX;

// 0, 1, 2, 4, 8, ...: where the range of powers of two begins that a number is in.
constexpr uint64_t range_of(uint64_t number) {
  return std::bit_floor(number);
}

class ProbeCollector final : public Collector {
 public:
  ProbeCollector(const trace::BlockTable& table, ProbeCollectorOptions options)
      : table_(table),
        options_(std::move(options)),
        plans_(table, options_.probes, *options_.code),
        counts_(options_.probes.size()),
        stacks_(options_.probes.size()),
        matched_(options_.probes.size()),
        unknown_(options_.probes.size()) {}

  void consume(const trace::Chunk& chunk) override;
  void finish(profile::Profile& into) override;

 private:
  struct Owned {
    ProbeThread thread;
    uint64_t last_use = 0;
  };

  // The words of the record; 0: it is corrupt.
  size_t take(std::span<const Word> words, ProbeThread& thread);
  void look_at_thread(const trace::Chunk& chunk);
  void give_up(ProbeThread& thread);
  void on(ProbeThread& thread, const trace::SampleStart& start);
  void on(ProbeThread& thread, const trace::SampleEnd& end);
  void on(ProbeThread& thread, trace::GapReason reason);
  void take_run(const ProbedRun& run, const Word* record, ProbeThread& thread);
  void take_event(const ProbeEvent& event, const Word* record, ProbeThread& thread);
  void set_latency(uint64_t stamps, ProbeFacts& facts);
  void set_stack(size_t probe, const ProbeThread& thread, ProbeFacts& facts);
  void count(size_t probe, const ProbeFacts& facts);
  void end_observation();
  ProbeThread& thread_of(Tid tid);
  void add_calls(const TableBuilder& builder, std::span<const uint64_t> calls,
                 std::vector<profile::ProbeNumber>& into);
  profile::ProbeRow row_of(const TableBuilder& builder, size_t probe,
                           const ProbeCounts::Entry& entry);
  void finish_probe(const TableBuilder& builder, size_t probe, profile::Profile& into);
  GuestAddr call_before(uint64_t returns_to);

  const trace::BlockTable& table_;
  ProbeCollectorOptions options_;
  ProbePlans plans_;
  std::vector<ProbeCounts> counts_;
  std::vector<ProbeStacks> stacks_;
  ProbeStack stack_;  // that is being looked up
  std::vector<uint64_t> matched_;
  std::vector<uint64_t> unknown_;
  std::unordered_map<Tid, Owned> threads_;
  std::unordered_map<uint64_t, GuestAddr> calls_;  // by where they return to
  std::optional<profile::LatencyCalibration> calibration_;
  StampCost stamp_cost_;
  // Probes are bits: those of other threads than the one whose chunk is read, and those of which
  // nobody knows.
  uint16_t elsewhere_ = 0;
  uint16_t perhaps_elsewhere_ = 0;
  uint64_t uses_ = 0;
  bool has_dropped_threads_ = false;
  uint64_t corrupt_chunks_ = 0;
};

ProbeThread& ProbeCollector::thread_of(Tid tid) {
  const bool is_new = !threads_.contains(tid);
  if (is_new && threads_.size() == kMostThreads) {
    threads_.erase(std::ranges::min_element(
        threads_, {}, [](const auto& known) { return known.second.last_use; }));
    has_dropped_threads_ = true;
  }
  Owned& own = threads_[tid];
  // One that was dropped comes back in the middle of something.
  if (is_new && !options_.sampled && !has_dropped_threads_) own.thread.begin();
  own.last_use = ++uses_;
  return own.thread;
}

void ProbeCollector::count(size_t number, const ProbeFacts& facts) {
  Probe& probe = options_.probes[number];
  if (probe.condition) {
    const auto holds = evaluate(probe, *probe.condition, facts);
    if (!holds) unknown_[number]++;
    if (!holds || *holds == 0) return;
  }
  ProbeCounts::Tuple tuple{};
  const bool has_no_room = probe.stack != 0 && facts.known[index_of(ProbeFact::stack)] &&
                           facts.values[index_of(ProbeFact::stack)] == kNoRoom;
  for (size_t c = 0; c < probe.columns.size(); c++) {
    const auto value = evaluate(probe, probe.columns[c].root, facts);
    if (!value) {
      unknown_[number]++;
      return;
    }
    const bool ranges =
        probe.action == ProbeAction::log2 && c >= probe.keys && !probe.columns[c].is_stack;
    tuple[c] = ranges ? range_of(*value) : *value;
  }
  if (has_no_room)
    counts_[number].add_other();
  else
    counts_[number].add(tuple);
}

void ProbeCollector::set_latency(uint64_t stamps, ProbeFacts& facts) {
  const Word elapsed = static_cast<Word>(stamps >> 32) - static_cast<Word>(stamps);
  if (!calibration_) calibration_ = options_.calibrate();
  const profile::LatencyCalibration& clock = *calibration_;
  const double cycles = std::max(0.0, elapsed - stamp_cost_.cycles(clock.overhead));
  if (options_.of_replicas && clock.class_of(cycles) == profile::LatencyClass::beyond) return;
  facts.set(ProbeFact::latency, static_cast<uint64_t>(cycles));
}

void ProbeCollector::set_stack(size_t number, const ProbeThread& thread, ProbeFacts& facts) {
  if (!thread.stack(options_.probes[number].stack, stack_)) return;
  facts.set(ProbeFact::stack, stacks_[number].number_of(stack_).value_or(kNoRoom));
}

void ProbeCollector::take_event(const ProbeEvent& event, const Word* record, ProbeThread& thread) {
  if ((elsewhere_ >> event.probe & 1) != 0) return;
  if ((perhaps_elsewhere_ >> event.probe & 1) != 0) {
    matched_[event.probe]++;
    unknown_[event.probe]++;
    return;
  }
  ProbeFacts facts;
  for (const ProbeInput& input : plans_.inputs(event)) {
    if (input.fact == ProbeFact::latency) [[unlikely]]
      set_latency(input.of(record), facts);
    else
      facts.set(input.fact, input.of(record));
  }
  if (options_.probes[event.probe].uses_fact(ProbeFact::caller))
    if (const auto caller = thread.caller()) facts.set(ProbeFact::caller, *caller);
  if (options_.probes[event.probe].stack != 0) set_stack(event.probe, thread, facts);
  matched_[event.probe]++;
  if (event.waits_for_target)
    thread.waiting.push_back({event.probe, facts});
  else
    count(event.probe, facts);
}

void ProbeCollector::take_run(const ProbedRun& run, const Word* record, ProbeThread& thread) {
  thread.arrive(run.start);
  for (WaitingProbe& waiting : thread.waiting) {
    waiting.facts.set(ProbeFact::target, run.start);
    count(waiting.probe, waiting.facts);
  }
  thread.waiting.clear();
  if (run.stamps_word != kNoWord) stamp_cost_.note(elapsed_at(record + run.stamps_word));
  if (run.events != 0) {
    const bool enters = thread.enters(run);
    for (const ProbeEvent& event : plans_.events(run))
      if (!event.is_entry || enters) take_event(event, record, thread);
  }
  thread.depart(run);
}

// Whoever waits will not be told.
void ProbeCollector::give_up(ProbeThread& thread) {
  for (const WaitingProbe& waiting : thread.waiting) count(waiting.probe, waiting.facts);
  thread.waiting.clear();
}

void ProbeCollector::on(ProbeThread& thread, const trace::SampleStart& start) {
  give_up(thread);
  thread.start_sample(start);
  // Where nothing is left out a thread begins at its beginning, unless a stack is there.
  if (!options_.sampled && !start.tells_stack()) thread.begin();
}

void ProbeCollector::on(ProbeThread& thread, const trace::SampleEnd& end) {
  give_up(thread);
  thread.forget();
  // What comes next is a new thread of that number, or a new program.
  if (!options_.sampled) return thread.begin();
  if (end.ends_observation()) end_observation();
}

void ProbeCollector::on(ProbeThread& thread, trace::GapReason reason) {
  switch (reason) {
    case trace::GapReason::signal_delivered:
      return thread.deliver_signal();
    case trace::GapReason::signal_returned:
      return thread.return_from_signal();
    case trace::GapReason::native:
      give_up(thread);
      return thread.run_natively();
    case trace::GapReason::lost:
      give_up(thread);
      return thread.forget();
  }
}

size_t ProbeCollector::take(std::span<const Word> words, ProbeThread& thread) {
  const Word id = words[0];
  if (id >= limits::kMaxRuns) [[unlikely]] {
    if (!trace::is_special(id)) return 0;
    return trace::take_special(words, [&](const auto& what) { on(thread, what); });
  }
  const ProbedRun* const run = plans_.run(RunId(id));
  if (run == nullptr || run->words > words.size()) return 0;
  take_run(*run, words.data(), thread);
  return run->words;
}

void ProbeCollector::look_at_thread(const trace::Chunk& chunk) {
  elsewhere_ = perhaps_elsewhere_ = 0;
  const std::string_view name(chunk.name.data());
  for (size_t p = 0; p < options_.probes.size(); p++) {
    const std::string& wanted = options_.probes[p].pattern.thread;
    if (wanted.empty() || (!name.empty() && profile::matches_glob(wanted, name))) continue;
    const auto bit = static_cast<uint16_t>(1u << p);
    (name.empty() ? perhaps_elsewhere_ : elsewhere_) |= bit;
  }
}

void ProbeCollector::consume(const trace::Chunk& chunk) {
  look_at_thread(chunk);
  stamp_cost_.begin(chunk.thread);
  ProbeThread& thread = thread_of(chunk.thread);
  for (std::span<const Word> left = chunk.words; !left.empty();) {
    const size_t words = take(left, thread);
    if (words == 0) {
      corrupt_chunks_++;
      thread.forget();
      break;
    }
    left = left.subspan(words);
  }
  if (!options_.sampled) end_observation();
}

void ProbeCollector::end_observation() {
  for (ProbeCounts& counts : counts_) counts.end_observation();
}

// The call itself, where one is known that ends there.
GuestAddr ProbeCollector::call_before(uint64_t returns_to) {
  if (calls_.empty()) {
    for (uint32_t b = 0; b < table_.block_count(); b++) {
      const trace::Block& block = table_.block(BlockId(b));
      if (block.terminator == trace::Terminator::call ||
          block.terminator == trace::Terminator::indirect_call)
        calls_[block.end.value] = block.last_insn;
    }
  }
  const auto found = calls_.find(returns_to);
  return found == calls_.end() ? GuestAddr(returns_to - 1) : found->second;
}

profile::ProbeRow ProbeCollector::row_of(const TableBuilder& builder, size_t number,
                                         const ProbeCounts::Entry& entry) {
  const Probe& probe = options_.probes[number];
  profile::ProbeRow row;
  row.probe = static_cast<uint32_t>(number);
  row.count = entry.count;
  if (options_.sampled) row.error = counts_[number].error_of(entry);
  for (size_t c = 0; c < probe.columns.size(); c++) {
    const auto fact = probe.columns[c].place;
    profile::ProbeNumber value{.number = entry.tuple[c]};
    if (fact) {
      const GuestAddr address =
          fact == ProbeFact::caller ? call_before(value.number) : GuestAddr(value.number);
      if (const auto at = builder.locate(address)) value = {true, at->module, at->offset};
    } else if (probe.columns[c].is_stack) {
      add_calls(builder, stacks_[number].calls(static_cast<uint32_t>(value.number)), row.stack);
      value.number = row.stack.size();
    }
    row.numbers.push_back(value);
  }
  return row;
}

void ProbeCollector::add_calls(const TableBuilder& builder, std::span<const uint64_t> calls,
                               std::vector<profile::ProbeNumber>& into) {
  for (const uint64_t returns_to : calls) {
    profile::ProbeNumber call{.number = returns_to};
    if (returns_to != ProbeStacks::kNoMore)
      if (const auto at = builder.locate(call_before(returns_to)))
        call = {true, at->module, at->offset};
    into.push_back(call);
  }
}

void ProbeCollector::finish_probe(const TableBuilder& builder, size_t number,
                                  profile::Profile& into) {
  const Probe& probe = options_.probes[number];
  const ProbeCounts& counts = counts_[number];
  profile::ProbeInfo info;
  info.name = probe.name;
  info.text = probe.text;
  info.action = kProbeActionNames[static_cast<size_t>(probe.action)];
  info.keys = probe.keys;
  for (const ProbeColumn& column : probe.columns) {
    info.columns.push_back(column.text);
    if (column.is_stack) info.stack = static_cast<uint32_t>(info.columns.size());
  }
  info.matched = matched_[number];
  info.unknown = unknown_[number];
  info.counted = counts.counted();
  info.others = counts.others();
  std::vector<const ProbeCounts::Entry*> entries;
  for (const ProbeCounts::Entry& entry : counts.entries()) entries.push_back(&entry);
  std::ranges::sort(entries, [](const auto* a, const auto* b) {
    return a->count != b->count ? a->count > b->count : a->tuple < b->tuple;
  });
  for (size_t i = 0; i < entries.size(); i++) {
    if (i < kMostRows)
      into.tables.probes.push_back(row_of(builder, number, *entries[i]));
    else
      info.others += entries[i]->count;
  }
  into.probes.push_back(std::move(info));
}

void ProbeCollector::finish(profile::Profile& into) {
  for (auto& [tid, own] : threads_)
    for (const WaitingProbe& waiting : own.thread.waiting) count(waiting.probe, waiting.facts);
  end_observation();
  profile::Profile mine;
  const TableBuilder builder(table_, mine);
  for (size_t p = 0; p < options_.probes.size(); p++) finish_probe(builder, p, mine);
  if (corrupt_chunks_ != 0) mine.coverage.events["probe_corrupt_chunks"] += corrupt_chunks_;
  if (calibration_ && !into.run.host.latency) into.run.host.latency = calibration_;
  profile::normalise(mine.tables);
  profile::add_tables(into, mine);
}

}  // namespace

std::unique_ptr<Collector> make_probe_collector(const trace::BlockTable& table,
                                                ProbeCollectorOptions options) {
  return std::make_unique<ProbeCollector>(table, std::move(options));
}

}  // namespace shadowprof::collect
