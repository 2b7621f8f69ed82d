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
// The program is not stopped, and no signal goes to it; a tick costs it an interrupt. Where the
// kernel permits it (root, CAP_PERFMON, perf_event_paranoid below 1) events are those of whole
// processors: what other processes do is left out here. Else each thread has its own, and each
// switch from and to one of its threads costs the program a timer that is set or stopped, which is
// dear in a virtual machine, and something even while the clock is paused: pause() and go_on()
// leave out some of the time for programs that switch often.
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

// One processor's are those of all that it executes.
enum class EventsOf : uint8_t { processors, threads };

// Whose events they are, and what the kernel lets them see.
struct EventScope {
  EventsOf of = EventsOf::processors;
  bool sees_kernel = true;
  bool threads_only = true;  // the kernel can leave out child processes (Linux 5.13)
};

class CpuClock {
 public:
  // The kernel may permit clocks of threads only. An Error says why there is none.
  static Result<CpuClock> open(std::chrono::nanoseconds period,
                               EventsOf widest = EventsOf::processors);

  // From now on; what is mapped already is for the caller to know. An Error leaves the process
  // unwatched, or some of its threads.
  Status watch(Tid process);
  // It has ended: its number may be another process's from now on.
  void forget(Tid process);
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
  EventsOf whose() const { return scope_.of; }
  // Ticks while the kernel works for a thread are noted, too.
  bool sees_kernel() const { return scope_.sees_kernel; }
  uint64_t lost() const { return lost_; }  // records for which the ring had no room

 private:
  CpuClock(std::chrono::nanoseconds period, EventScope scope) : period_(period), scope_(scope) {}

  Status watch_processors();
  Status watch_thread(Tid process, Tid thread);
  Status watch_on(int processor, Tid process, Tid thread);
  bool is_watched(const ClockEvent& event) const;
  void mend_period(Tick& tick) const;
  void enable(bool on);

  std::chrono::nanoseconds period_;
  EventScope scope_;
  bool paused_ = false;
  uint64_t lost_ = 0;
  size_t watched_ = 0;              // pairs of thread and processor
  std::map<int, EventRing> rings_;  // by processor
  std::set<Tid> processes_;
  std::map<Tid, Tid> given_;        // to watch(), with their processes: these have the last period
  std::vector<ClockEvent> early_;   // from before it was set
};

}  // namespace shadowprof::clock
