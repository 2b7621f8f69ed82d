// SPDX-License-Identifier: MIT
//
// Interrupting a thread (Tracee::interrupt) must not be visible to the program. Most blocking
// system calls restart by themselves when no handler ran. Some give up with EINTR instead
// (signal(7), "Interruption of system calls and library functions by stop signals"): epoll_wait,
// semtimedop, rt_sigtimedwait, sockets with a timeout, and a few more. Yet others restart by way of
// restart_syscall(2), which a seccomp filter of the program's may not know.
#pragma once

#include <chrono>

#include "machine/registers.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// For the registers of a thread that stands at StopEvent::stop because of our interrupt. If a
// system call came back with EINTR which would have gone on sleeping otherwise, changes rax so that
// the kernel restarts it when the thread is resumed (from this stop: or any other inside the
// kernel's signal code), unless a handler runs first: then the program sees EINTR as without us.
// True if changed; the caller sets the registers.
//
// Only calls that certainly did nothing yet when they say EINTR are restarted; close, for example,
// has closed. Not undone: a relative timeout starts anew, so interrupt blocked threads sparingly.
// The same for a call that has only looked at what is there and was to wait for more (recv(2) with
// MSG_PEEK and MSG_WAITALL): it says how much there is, and has taken nothing. If a handler runs
// first it says EINTR.
// The same for a call that the kernel would end by restart_syscall(2), if the thread's filters are
// not certain to let that through: it begins anew by its own number.
bool conceal_interruption(Tracee thread, machine::Registers& registers);

// That for certain, whatever filters the thread has now: others of its process may put some upon it
// before it continues its sleep. True if changed.
bool begin_sleep_anew(machine::Registers& registers);

// Which call it is that a thread continues by restart_syscall(2): filters that do not let that
// through may come while it sleeps, and then it must begin anew when it is interrupted again.
class RestartedCall {
 public:
  // Before a stopped thread goes on.
  void remember(const machine::Registers& registers);
  // At its stop. True if changed; the caller sets the registers.
  bool conceal(Tracee thread, machine::Registers& registers) const;

 private:
  uint64_t pc_ = 0;
  uint64_t sp_ = 0;
  uint64_t number_ = 0;
};

// The same for signals that are ignored. A thread without a tracer sleeps on when one comes; of one
// that has a tracer the kernel wakes every sleep, to show the tracer the signal.
class SignalledSleep {
 public:
  // At the stop of the thread for this signal, unless that stops the process. Each time the timeout
  // starts anew; so when that is over since the first time, the call says so (sleep_timeout.h).
  // Where the timeout cannot be told, and such signals come thickly, it says EINTR.
  bool conceal(Tracee thread, machine::Registers& registers, int signal);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Which : uint8_t { another, same };
  Which note(const machine::Registers& registers, uint64_t sleeps);

  // The call that was met last, and what the thread's count of its sleeps was then.
  uint64_t pc_ = 0;
  uint64_t sp_ = 0;
  uint64_t number_ = 0;
  uint64_t sleeps_ = 0;
  Clock::time_point first_;
  Clock::time_point last_;
};

}  // namespace shadowprof::ptrace
