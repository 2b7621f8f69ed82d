// SPDX-License-Identifier: MIT
//
// Follows the accesses of each thread through a trace. What a collector remembers of a thread is
// its Thread:
//
//   Thread(Followed&)
//   void forget();                                       // what comes next follows on nothing
//   void take(PlannedRun&, const trace::Word* record);   // a run was executed
//
// forget() is called where a trace has a gap: at the border of a sample, where a signal handler
// begins or ends, where something ran that is not traced. Bounded: of more than kMostThreads
// threads the one that was not seen for longest is forgotten altogether.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collect/collector.h"
#include "collect/loads/access_pairs.h"
#include "collect/loads/access_plan.h"
#include "trace/record.h"

namespace shadowprof::collect {

struct AccessFollowerOptions {
  bool sampled = false;  // a trace begins anywhere in its thread; counts have errors
};

// What all threads have in common.
struct Followed {
  Followed(const trace::BlockTable& table, AccessFollowerOptions how) : plans(table), options(how) {
    if (options.sampled) plans.keep_errors();
  }
  AccessPlans plans;
  AccessPairs pairs;
  AccessFollowerOptions options;
};

template <typename Thread>
class AccessFollower final : public Collector {
 public:
  static constexpr size_t kMostRows = 20'000;  // of the file's table

  // The rows go to `to`, most frequent first; events are named `prefix`_unknown_addresses, ...
  AccessFollower(const trace::BlockTable& table, AccessFollowerOptions options, std::string prefix,
                 profile::AccessPairTable profile::Tables::* to)
      : table_(table), followed_(table, options), prefix_(std::move(prefix)), to_(to) {}

  void consume(const trace::Chunk& chunk) override {
    const trace::Word* at = chunk.words.data();
    const trace::Word* const end = at + chunk.words.size();
    Thread* thread = &thread_of(chunk.thread);
    while (at < end) {
      const size_t words = take_record({at, static_cast<size_t>(end - at)}, thread);
      if (words == 0) {
        corrupt_chunks_++;
        thread->forget();
        break;
      }
      at += words;
    }
    if (!followed_.options.sampled) followed_.pairs.forget_touched();
  }

  void finish(profile::Profile& into) override {
    for (Owned& one : threads_) one.thread->forget();
    if (followed_.options.sampled) end_observation();
    followed_.plans.count_sites();
    profile::Profile mine;
    const TableBuilder builder(table_, mine);
    followed_.pairs.finish(followed_.plans, builder, kMostRows, mine.tables.*to_);
    const auto note = [&](const char* what, uint64_t count) {
      if (count != 0) mine.coverage.events[prefix_ + what] += count;
    };
    note("_unknown_addresses", followed_.plans.unknown_accesses());
    note("_pruned", followed_.pairs.pruned());
    note("_corrupt_chunks", corrupt_chunks_);
    profile::normalise(mine.tables);
    profile::add_tables(into, mine);
  }

 private:
  static constexpr size_t kMostThreads = 8;
  struct Owned {
    Tid tid;
    uint64_t last_use = 0;
    std::unique_ptr<Thread> thread;
  };

  size_t take_record(std::span<const trace::Word> words, Thread*& thread) {
    const trace::Word id = words[0];
    if (id >= limits::kMaxRuns) [[unlikely]] {
      const size_t length = trace::is_special(id) ? trace::special_length(id) : 0;
      if (length == 0 || length > words.size()) return 0;
      mark(words.first(length), thread);
      return length;
    }
    PlannedRun* const run = followed_.plans.run(RunId(id));
    if (run == nullptr || run->words > words.size()) return 0;
    thread->take(*run, words.data());
    return run->words;
  }

  void mark(std::span<const trace::Word> record, Thread*& thread) {
    switch (trace::special_kind(record[0])) {
      case trace::SpecialKind::thread_switch:
        if (record.size() > 1) thread = &thread_of(Tid(static_cast<int32_t>(record[1])));
        return;
      case trace::SpecialKind::sample_end:
        thread->forget();
        if (followed_.options.sampled && trace::ends_observation(record)) end_observation();
        return;
      default:
        thread->forget();
    }
  }

  void end_observation() {
    followed_.plans.end_observation([this] { followed_.pairs.end_observation(followed_.plans); });
  }

  Thread& thread_of(Tid tid) {
    uses_++;
    for (Owned& one : threads_) {
      if (one.tid != tid) continue;
      one.last_use = uses_;
      return *one.thread;
    }
    if (threads_.size() < kMostThreads) {
      threads_.push_back({tid, uses_, std::make_unique<Thread>(followed_)});
      return *threads_.back().thread;
    }
    Owned& oldest = *std::ranges::min_element(threads_, {}, &Owned::last_use);
    oldest.thread->forget();
    oldest.tid = tid;
    oldest.last_use = uses_;
    return *oldest.thread;
  }

  const trace::BlockTable& table_;
  Followed followed_;
  const std::string prefix_;
  profile::AccessPairTable profile::Tables::* const to_;
  std::vector<Owned> threads_;
  uint64_t uses_ = 0;
  uint64_t corrupt_chunks_ = 0;
};

}  // namespace shadowprof::collect
