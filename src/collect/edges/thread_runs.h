// SPDX-License-Identifier: MIT
//
// Which thread of the program executed what EdgeCollector counts. Its counters are those of all
// threads: what they have grown by when another thread's trace follows was the thread's before. So
// there is a look at all runs for each buffer that another thread than the last one has filled, and
// where samples were taken for each group of them.
//
// Memory is bounded as in trace/thread_counts.h, with four bytes more for each run of a thread;
// here threads beyond kMostThreads are counted together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "trace/join_equal.h"
#include "trace/thread_counts.h"

namespace shadowprof::collect {

// Threads that only a replica has.
inline constexpr const char* kReplicaThreads = "(started in replicas)";

class ThreadRuns {
 public:
  bool is_of(Tid thread) const { return !threads_.empty() && thread == last_; }
  // After settle(): what follows is this thread's (0: one that only a replica has).
  void switch_to(Tid thread) {
    last_ = thread;
    current_ = number_of(thread);
  }
  void sample_began() { threads_[current_].samples++; }
  // Counts up to now are those of the threads that there were; count(i) is what the counter of run
  // i is, of `runs`.
  template <typename Count>
  void settle(size_t runs, Count count) {
    before_.resize(std::max(before_.size(), runs));
    if (threads_.empty()) return;
    for (uint32_t run = 0; run < runs; run++) {
      const uint64_t now = count(run);
      if (now != before_[run]) add(run, now - before_[run]);
      before_[run] = now;
    }
  }

  // Pairs of a thread and a run, by numbers that stay.
  struct Pair {
    uint32_t thread;
    uint32_t run;
    uint64_t count;
  };
  std::vector<Pair>& pairs() { return pairs_; }
  std::vector<trace::ThreadCount> counts() const {
    std::vector<trace::ThreadCount> counts = threads_;
    for (const Pair& pair : pairs_)
      counts[pair.thread].runs.push_back({RunId(pair.run), pair.count});
    for (trace::ThreadCount& thread : counts) trace::join_equal(thread.runs);
    return counts;
  }

 private:
  uint32_t number_of(Tid thread) {
    const auto known = numbers_.find(thread);
    if (known != numbers_.end()) return known->second;
    const auto number = static_cast<uint32_t>(threads_.size());
    if (number == trace::kMostThreads) return number - 1;
    numbers_[thread] = number;
    threads_.push_back({thread, {}, thread == Tid() ? kReplicaThreads : ""});
    if (number + 1 == trace::kMostThreads) threads_.back() = {{}, {}, trace::kOtherThreads};
    pair_of_.emplace_back();
    return number;
  }
  void add(uint32_t run, uint64_t count) {
    std::vector<uint32_t>& pair_of = pair_of_[current_];
    if (run >= pair_of.size()) pair_of.resize(run + 1);
    if (pair_of[run] == 0) {
      pairs_.push_back({current_, run, 0});
      pair_of[run] = static_cast<uint32_t>(pairs_.size());
    }
    pairs_[pair_of[run] - 1].count += count;
  }

  Tid last_{};
  uint32_t current_ = 0;
  std::unordered_map<Tid, uint32_t> numbers_;
  std::vector<trace::ThreadCount> threads_;     // without runs
  std::vector<std::vector<uint32_t>> pair_of_;  // by thread and run: the pair's number and 1
  std::vector<Pair> pairs_;
  std::vector<uint64_t> before_;  // counts of runs when they were last looked at
};

}  // namespace shadowprof::collect
