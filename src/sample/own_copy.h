// SPDX-License-Identifier: MIT
//
// A copy of the process that samples, which makes a profile of what there is now while the original
// goes on sampling:
//
//   sampling process ── fork at a quiet moment ──▶ copy: collectors finish, names, file
//          │                                          │
//          ├─ goes on sampling                        │ an answer, then it ends
//          └─◀────────────────── pipe ────────────────┘
//
// The collectors can finish once only, so what finishes is a copy. What it costs: the fork takes as
// long as copying our own page tables twice (about 0.1 us for each page of ours, a few
// milliseconds), in which no sample is served; the program is not stopped for it. Memory is shared
// until one of the two writes to it. The work takes processor time that is ours and not the
// program's, at the lowest priority, on another core where one is free.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "collect/pipeline.h"

namespace shadowprof::sample {

class OwnCopy {
 public:
  // An answer reaches the original in one write.
  static constexpr size_t kLongestAnswer_bytes = 4096;

  // False: it could not be made. What `work` returns in the copy is the answer.
  bool start(collect::Pipeline& pipeline, const std::function<std::string()>& work);
  bool is_at_work() const { return end_.valid(); }
  // Nothing: it works still, or there is none. "": it has ended without an answer. Does not wait.
  std::optional<std::string> take_answer() { return take_answer(0); }
  // The same, waits.
  std::optional<std::string> take_answer(double most_s);
  // Whatever it would still do is not done.
  void stop();

 private:
  UniqueFd end_;  // of a pipe, which is closed at its other end when the copy ends
  pid_t worker_ = 0;
};

}  // namespace shadowprof::sample
