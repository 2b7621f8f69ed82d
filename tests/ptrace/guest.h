// SPDX-License-Identifier: MIT
//
// A process for the tests to trace: a fork of the test that runs a function. As it is a fork, its
// code, its vdso and the addresses of our variables are the same in both.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/types.h"
#include "ptrace/tracee.h"
#include "ptrace/wait_status.h"

namespace shadowprof::ptrace::test {

// What guests are traced with, if nothing else is asked for.
inline constexpr TraceOptions kPlain = TraceOptions::mark_syscall_stops;

// A page that the guest and the test share.
struct Shared {
  std::atomic<int> ready;  // the guest got to where the test wants it
  std::atomic<int> go;     // the test lets it go on
  std::atomic<int64_t> result;
  std::atomic<int> error;
  std::atomic<int> count;
  std::atomic<int64_t> values[256];
  std::atomic<int> futex;
};

class Guest {
 public:
  explicit Guest(const std::function<void(Shared&)>& body);
  ~Guest();  // kills and reaps it, if need be
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  Tid tid() const { return tid_; }
  pid_t pid() const { return tid_.value; }
  Shared& shared() { return *shared_; }
  Tracee tracee() const { return Tracee(tid_); }

  // With mark_syscall_stops added.
  Tracee seize(TraceOptions options = TraceOptions::none);
  // Seized, where `shared().ready` is set, and stopped.
  Tracee seize_ready();
  // Runs until `shared().ready` is at least n.
  void await_ready(int n = 1);
  // Until it sleeps in the kernel.
  void await_sleep();
  // Interrupts it and returns at the trap stop.
  void stop();
  // Sends it SIGSTOP and returns at the group stop that follows.
  WaitStatus stop_group();
  // Lets it go on until it has made a thread, which stands before its first instruction. It was
  // seized with follow_clone.
  Tid await_thread();
  // The next report, which must come within a few seconds.
  WaitStatus wait();
  // Lets it run to its end, passing signals on; the final status.
  WaitStatus run_to_end();
  // The same from a stop, with leave to go on.
  WaitStatus finish(Tracee tracee);

 private:
  Tid tid_;
  Shared* shared_;
  bool reaped_ = false;
};

// What a guest does: computes until it may go on.
void spin(Shared& shared);
// The same; then it makes a thread and waits for its end. `result` is who the thread says it is,
// `error` what the wait returned.
void spin_and_make_thread(Shared& shared);

// Says so and returns false where tracing is forbidden; the test then returns at once.
bool can_trace();

// A line "name:\tvalue" of /proc/TID/status.
std::string status_field(Tid tid, const std::string& name);

// A `syscall` in the vdso, which a fork has at the same place.
GuestAddr syscall_insn();

// Aborts the whole test program with the test's name if a test hangs.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds = 30);
  ~Watchdog();
};

int64_t now_ns();

}  // namespace shadowprof::ptrace::test
