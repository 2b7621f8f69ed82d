// SPDX-License-Identifier: MIT
//
// Whose turn it is, where the threads of a program run one at a time, in an order that is the same
// in each run. All that is known here are names of threads; turn_keeper.h says which of them can
// go on.
//
// Who loses the turn, or comes new, is the last in the order. The first that can go on is next; or,
// with a seed, any that can, drawn by a generator. A turn ends after so many backward branches, or
// where the thread waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "base/types.h"

namespace shadowprof::inject {

class TurnOrder {
 public:
  // No seed: turns in order, and of one length.
  explicit TurnOrder(std::optional<uint64_t> seed = std::nullopt);

  // Until then, nobody takes turns.
  void begin(Tid only) {
    is_active_ = true;
    holder_ = only;
  }
  bool is_active() const { return is_active_; }

  std::optional<Tid> holder() const { return holder_; }
  bool is_holder(Tid tid) const { return holder_ == tid; }
  // All others.
  const std::deque<Tid>& waiting() const { return waiting_; }

  // A thread that waits from now on, if it does not yet.
  void add(Tid tid);
  void forget(Tid tid);
  // The holder goes on under another id.
  void rename(Tid from, Tid to);
  // The holder is the last one that waits.
  void pass();
  // There is no holder; the next one of those that can go on is. Nothing: none can.
  std::optional<Tid> give(const std::function<bool(Tid)>& can_go_on);
  // Some hundreds of microseconds; giving the turn away takes some tens.
  static constexpr uint64_t kLength = 20'000;
  static constexpr uint64_t kLongest = 2 * kLength;
  // Backward branches of the turn that begins.
  uint64_t length();

 private:
  bool is_active_ = false;
  std::optional<Tid> holder_;
  std::deque<Tid> waiting_;
  std::optional<uint64_t> random_;
};

}  // namespace shadowprof::inject
