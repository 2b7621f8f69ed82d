// SPDX-License-Identifier: MIT
//
// From a collector to the engine: runs that it has seen often enough to do with a sample of them
// from now on. The one thing that goes against the stream of the trace; both sides work without it.
// The engine answers when it has done so.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/types.h"

namespace shadowprof::trace {

class RunMailbox {
 public:
  struct Request {
    RunId run;
    // The collector wants to know of each execution, though not of what it computes.
    bool keep_records = true;
  };
  struct Answer {
    RunId plain;          // of the translation that captures nothing
    uint64_t chunks = 0;  // submitted until then: what was captured in later ones is a sample
  };

  // All is to be captured: nobody has seen enough of anything. Until then, or from then on, as a
  // run's user says.
  void want_all(bool all) { wants_all_.store(all, std::memory_order_relaxed); }
  bool wants_all() const { return wants_all_.load(std::memory_order_relaxed); }

  void put(Request request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  std::vector<Request> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }
  void answer(Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(answer);
  }
  std::vector<Answer> take_answers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answers_, {});
  }

  // Windows in which all that was seen enough of is captured: so many have been opened up to now.
  // Where one ends and the next one begins the trace does not say.
  void window_opened() { windows_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t windows() const { return windows_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<Answer> answers_;
  std::atomic<uint64_t> windows_ = 0;
  std::atomic<bool> wants_all_ = false;
};

// The collector's side of the answers: each counts from the first chunk on that was submitted after
// it.
class AwaitedAnswers {
 public:
  // Calls use(run of the plain translation) for those that count from chunk number `chunk` on.
  template <typename Use>
  void hear(RunMailbox& mailbox, uint64_t chunk, const Use& use) {
    const auto heard = mailbox.take_answers();
    waiting_.insert(waiting_.end(), heard.begin(), heard.end());
    std::erase_if(waiting_, [&](const RunMailbox::Answer& answer) {
      if (answer.chunks >= chunk) return false;
      use(answer.plain);
      return true;
    });
  }

 private:
  std::vector<RunMailbox::Answer> waiting_;  // for chunks that are still to come
};

}  // namespace shadowprof::trace
