// SPDX-License-Identifier: MIT
//
// What a thread does that is not stopped, as /proc has it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "inject/guests.h"

namespace shadowprof::inject {

// As in proc(5); X: there is no such thread.
char state_of(GuestThread& t, const Guests& guests);
bool has_ended(char state);

// A thread that is looked at again and again: does it stay in one and the same sleep? Who waits for
// a busy disk, or for a processor, goes on now and then.
class LastingSleep {
 public:
  using Clock = std::chrono::steady_clock;

  // `state`: the thread's present one. True: it sleeps, and has not run for that long.
  bool lasts(const GuestThread& t, char state, Clock::duration limit);
  void forget() { since_.reset(); }

 private:
  std::optional<Clock::time_point> since_;
  Tid tid_;
  uint64_t runs_ = 0;  // that it has had by then
};

// A parent that waits for its vfork child, and a thread that waits for the others of its process
// to end, because it executes another program.
bool cannot_be_stopped(const GuestThread& t);

enum class Whereabouts : uint8_t { running, asleep_in_gateway, gone };
Whereabouts whereabouts(const GuestThread& t);

// The process, which was let go in a group stop, stands in it again, or has not in a second.
void await_group_stop(const GuestThread& t);

}  // namespace shadowprof::inject
