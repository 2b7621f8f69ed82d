// SPDX-License-Identifier: MIT
//
// The system calls by which a program sets timers and asks for them, where time is a virtual
// clock's (virtual_timers.h). The kernel keeps the ids of timer_create(2), and what
// timerfd_create(2) has opened, but never starts them.
//
// Left to the kernel, which counts real time: clocks that are neither of the date, nor of the time
// since start, nor the process's own processor time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/types.h"
#include "inject/fixed/time_calls.h"
#include "inject/fixed/virtual_timers.h"

namespace shadowprof::inject {

struct TimerCall : TimeCall {
  VirtualTimers& timers;
  // The thread that the process knows under that id; 0: none.
  std::function<Tid(int id)> thread_of;
};

std::span<const unsigned> timer_calls();
bool is_timer_call(long number);
// What it returns. Nothing: the kernel is to answer it.
std::optional<int64_t> answer_timer_call(const TimerCall& call);
// The kernel has, and without an error.
void note_timer_call(const TimerCall& call);

}  // namespace shadowprof::inject
