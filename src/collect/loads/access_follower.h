// SPDX-License-Identifier: MIT
//
// Follows the accesses of each thread through a trace. What a collector remembers of a thread is
// its Thread:
//
//   Thread(Followed&)
//   void forget();                                       // what comes next follows on nothing
//   void interrupt();                                    // something came in between
//   void take(PlannedRun&, const trace::Word* record);   // a run was executed
//
// forget() is called at the border of a sample, interrupt() where a trace has a gap: where a signal
// handler begins or ends, where something ran that is not traced. Bounded: of more than
// kMostThreads threads the one that was not seen for longest is forgotten altogether.
//
// It may have besides, to follow several threads:
//
//   void enter(const trace::Chunk&);                     // a buffer of the thread begins
//   void leave();                                        // and ends
//   void begin(const trace::SampleStart&);               // after forget()
//
// What all threads have in common is Followed:
//
//   Followed(const trace::BlockTable&, AccessFollowerOptions, ...)
//   AccessPlans plans;
//   void end_chunk();
//   void end_observation();                              // of samples
//   void finish(const TableBuilder&, profile::Profile&); // all threads are forgotten
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collect/collector.h"
#include "collect/loads/access_plan.h"
#include "collect/table_builder.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

// What is known of when a trace's records were made.
enum class Moments : uint8_t {
  samples,   // of replicas: samples that follow one another are of one stretch of time
  buffers,   // the order in which buffers came
  recorded,  // trace::Chunk::until, and time stamps around system calls (trace::SlotKind::moment)
};

struct AccessFollowerOptions {
  bool sampled = false;  // a trace begins anywhere in its thread; counts have errors
  Moments moments = Moments::buffers;
};

template <typename Thread, typename Followed>
class AccessFollower final : public Collector {
 public:
  // Events are named `prefix`_unknown_addresses, ...; `more`: what Followed is made of besides.
  template <typename... More>
  AccessFollower(const trace::BlockTable& table, AccessFollowerOptions options, std::string prefix,
                 More... more)
      : table_(table),
        prefix_(std::move(prefix)),
        is_sampled_(options.sampled),
        followed_(table, options, more...) {}

  void consume(const trace::Chunk& chunk) override {
    const trace::Word* at = chunk.words.data();
    const trace::Word* const end = at + chunk.words.size();
    Thread& thread = thread_of(chunk.thread);
    if constexpr (requires { thread.enter(chunk); }) thread.enter(chunk);
    while (at < end) {
      const size_t words = take_record({at, static_cast<size_t>(end - at)}, thread);
      if (words == 0) {
        corrupt_chunks_++;
        thread.forget();
        break;
      }
      at += words;
    }
    if constexpr (requires { thread.leave(); }) thread.leave();
    followed_.end_chunk();
  }

  void finish(profile::Profile& into) override {
    for (Owned& one : threads_) one.thread->forget();
    if (is_sampled_) followed_.end_observation();
    followed_.plans.count_sites();
    profile::Profile mine;
    const TableBuilder builder(table_, mine);
    followed_.finish(builder, mine);
    const auto note = [&](const char* what, uint64_t count) {
      if (count != 0) mine.coverage.events[prefix_ + what] += count;
    };
    note("_unknown_addresses", followed_.plans.unknown_accesses());
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

  size_t take_record(std::span<const trace::Word> words, Thread& thread) {
    const trace::Word id = words[0];
    if (id >= limits::kMaxRuns) [[unlikely]] {
      if (!trace::is_special(id)) return 0;
      return trace::take_special(words, [&](const auto& what) { on(thread, what); });
    }
    PlannedRun* const run = followed_.plans.run(RunId(id));
    if (run == nullptr || run->words > words.size()) return 0;
    thread.take(*run, words.data());
    return run->words;
  }

  void on(Thread& thread, const trace::SampleStart& start) {
    thread.forget();
    if constexpr (requires { thread.begin(start); }) thread.begin(start);
  }
  void on(Thread& thread, const trace::SampleEnd& end) {
    thread.forget();
    if (is_sampled_ && end.ends_observation()) followed_.end_observation();
  }
  void on(Thread& thread, trace::GapReason) { thread.interrupt(); }

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
  const std::string prefix_;
  const bool is_sampled_;
  Followed followed_;
  std::vector<Owned> threads_;
  uint64_t uses_ = 0;
  uint64_t corrupt_chunks_ = 0;
};

}  // namespace shadowprof::collect
