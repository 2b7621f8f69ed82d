// SPDX-License-Identifier: MIT
//
// Where the threads of processes spend processor time, by the kernel's software clock: each
// thread's program counter is noted whenever it has used another period of processor time
// (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK). It needs no performance counters, so it works in
// virtual machines; the kernel must permit it (perf_event_paranoid, seccomp, containers).
//
//   auto clock = CpuClock::open(period);
//   clock->watch(process);         // all of its threads, and those that they will make
//   clock->drain(...);             // once a second at least
//
// The program is not stopped, and no signal goes to it. A tick costs it an interrupt, and each
// switch from and to one of its threads a timer that is set or stopped, which is dear in a virtual
// machine: pause() and go_on() leave out some of the time for programs that switch often.
//
// While it is paused what the program maps is still told.
//
// A new process is not watched by itself. Replicas are none of the program's threads, so they have
// no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "clock/clock_event.h"
#include "clock/event_ring.h"

namespace shadowprof::clock {

class CpuClock {
 public:
  // An Error says why there is none.
  static Result<CpuClock> open(std::chrono::nanoseconds period);

  // From now on; what is mapped already is for the caller to know. An Error leaves the process
  // unwatched, or some of its threads.
  Status watch(Tid process);
  // What has happened since the last call, in the order of time. Of threads that go on meanwhile an
  // event may come with the next call only, after later ones: one pauses it before.
  std::vector<ClockEvent> drain();

  // Ticks stop and go on, for all threads.
  void pause() { enable(false); }
  void go_on() { enable(true); }
  bool is_paused() const { return paused_; }

  std::chrono::nanoseconds period() const { return period_; }
  // For threads that were given to watch(), and those that these make from now on; each tick says
  // what it stands for. False: for some it remains what it was.
  bool set_period(std::chrono::nanoseconds period);
  // Ticks while the kernel works for a thread are noted, too.
  bool sees_kernel() const { return sees_kernel_; }
  uint64_t lost() const { return lost_; }  // records for which the ring had no room

 private:
  CpuClock(std::chrono::nanoseconds period, bool sees_kernel, bool threads_only)
      : period_(period), sees_kernel_(sees_kernel), threads_only_(threads_only) {}

  Status watch_thread(Tid thread);
  Status watch_on(int processor, Tid thread);
  void mend_period(Tick& tick) const;
  void enable(bool on);

  std::chrono::nanoseconds period_;
  bool sees_kernel_ = true;
  bool threads_only_ = true;  // the kernel can leave out child processes (Linux 5.13)
  bool paused_ = false;
  uint64_t lost_ = 0;
  size_t watched_ = 0;              // pairs of thread and processor
  std::map<int, EventRing> rings_;  // by processor
  std::set<Tid> given_;             // to watch(): these have the period that was set last
  std::vector<ClockEvent> early_;   // from before it was set
};

}  // namespace shadowprof::clock
