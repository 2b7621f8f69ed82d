// SPDX-License-Identifier: MIT
//
// How often each thread has executed each run. Exact: what is counted for the program is counted
// for one of its threads.
//
// Memory is bounded: there are at most kMostThreads rows, each with a count for each run that its
// threads have executed. Where more threads come, those that have ended become one for each name;
// where that is not enough, new ones are counted together (kOtherThreads).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"

namespace shadowprof::trace {

inline constexpr size_t kMostThreads = 256;
inline constexpr const char* kOtherThreads = "(other threads)";

struct RunCount {
  RunId run;
  uint64_t count = 0;
  uint32_t key() const { return run.value; }
};

struct ThreadCount {
  Tid thread{};  // 0: several of this name
  Tid process{};
  std::string name;
  uint64_t samples = 0;
  std::vector<RunCount> runs{};  // by run
};

class ThreadCounts {
 public:
  bool knows(Tid thread) const { return row_of_.contains(thread); }
  // It is known from here on, by this name if it is not empty.
  void seen(Tid thread, Tid process, std::string name);
  // For one that is known.
  void add(Tid thread, RunId run, uint64_t count);
  void add_sample(Tid thread);
  // Another one may get its id.
  void ended(Tid thread) { row_of_.erase(thread); }

  // Up to now, in the order in which they came.
  std::vector<ThreadCount> counts() const;

 private:
  struct Row {
    ThreadCount of;
    size_t different = 0;  // of its runs (join_if_many)
  };
  void make_room();

  std::vector<Row> rows_;
  std::unordered_map<Tid, size_t> row_of_;  // of threads that have not ended
};

}  // namespace shadowprof::trace
