// SPDX-License-Identifier: MIT
//
// The calls that a thread is in, as its trace tells: each has a site, and where it returns to. What
// a return leads to says how far: frames that an exception or longjmp has left go with it. The one
// that fits no call ends the innermost, whose return address the callee may have changed. A signal
// handler has not been called by what it interrupts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shadowprof::collect {

class CallSites {
 public:
  // Where the last that has not returned was called; 0: not known.
  uint32_t innermost() const { return calls_.empty() ? 0 : calls_.back().site; }

  void call(uint32_t site, uint64_t returns_to) { push({site, returns_to, false}); }
  void ret() { returns_ = true; }
  // What the thread executes next.
  void arrive(uint64_t at) {
    if (std::exchange(returns_, false)) [[unlikely]]
      return_to(at);
  }
  void enter_handler() { push({0, kHandler, std::exchange(returns_, false)}); }
  void leave_handler() {
    const auto handler = innermost_to(kHandler);
    if (handler == calls_.end()) return;
    returns_ = handler->interrupts_return;
    calls_.erase(handler, calls_.end());
  }
  // Who knows what it does before the next record.
  void lose_track() { returns_ = false; }

 private:
  static constexpr size_t kMost = 4096;
  static constexpr uint64_t kHandler = ~uint64_t{0};  // nobody returns to there

  struct Call {
    uint32_t site;
    uint64_t returns_to;
    bool interrupts_return;  // a handler: before it was seen where to
  };

  void push(const Call& call) {
    if (calls_.size() == kMost) calls_.erase(calls_.begin(), calls_.begin() + kMost / 2);
    calls_.push_back(call);
  }
  std::vector<Call>::iterator innermost_to(uint64_t place) {
    const auto found = std::ranges::find(calls_.rbegin(), calls_.rend(), place, &Call::returns_to);
    return found == calls_.rend() ? calls_.end() : found.base() - 1;
  }
  void return_to(uint64_t place) {
    const auto fits = innermost_to(place);
    if (fits != calls_.end())
      calls_.erase(fits, calls_.end());
    else if (!calls_.empty() && calls_.back().returns_to != kHandler)
      calls_.pop_back();
  }

  std::vector<Call> calls_;
  bool returns_ = false;  // where to is not known yet
};

}  // namespace shadowprof::collect
