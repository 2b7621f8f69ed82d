// SPDX-License-Identifier: MIT
//
// Starting a program under trace from its first instruction on.
//
// The program gets what it would have got from a shell that started it in our place: file
// descriptors, working directory, umask, limits, process group and controlling terminal are simply
// inherited; signal mask and ignored signals are put back to what we inherited ourselves, because
// we change ours, and timers that exec would keep are ours no more and go on there. No descriptor
// of ours survives into it (all are close-on-exec; so must be those of the rest of this program).
//
//   fork -> child waits at a socket -> we seize it -> child executes -> exec event
//
// If we die before the seize, the child reads end of file and exits; after it,
// TraceOptions::exit_kill (if given) kills it. In between the program has not begun.
#pragma once

#include <sys/time.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/cpu_model.h"
#include "ptrace/id_space.h"
#include "ptrace/start_stack.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// What exec keeps of a process's signal state. Caught signals become default ones.
struct InheritedSignals {
  SignalMask blocked = 0;
  SignalMask ignored = 0;
  // Timers of setitimer(2) and alarm(2), by their numbers, and when they were taken.
  std::array<itimerval, 3> timers{};
  std::chrono::steady_clock::time_point taken_at{};

  // The calling thread's, now. main() calls it before it touches any signal.
  static InheritedSignals capture();
  // Our timers stop, and go on in the program: whoever sets an alarm and executes `shadowprof run`
  // means that.
  InheritedSignals& take_timers();
  // In the program, before it executes.
  void start_timers() const;
};

struct LaunchRequest {
  std::string path;                      // to the file itself; PATH is not searched
  std::vector<std::string> argv;         // with argv[0]
  std::vector<std::string> environment;  // NAME=value, in the order that the program will see
  InheritedSignals signals;
  TraceOptions options = TraceOptions::none;  // report_exec is always added
  bool fixed_addresses = false;               // no address space layout randomisation
  bool fixed_start = false;                   // start_stack.h
  ToldUser told_user = ToldUser::real;        // with fixed_start
  const machine::CpuModel* processor = nullptr;  // that it is told of; nullptr: the host's
};

// The tracee stands at its exec event: the new image is mapped, not one instruction of it has run.
// On failure no process is left, not even a zombie, and the Error's errno is execve's: ENOENT,
// ENOTDIR (127 for a shell), EACCES, ENOEXEC and others (126). errno 0 or ESRCH: it was killed, by
// a signal from elsewhere, or by the kernel past execve's point of no return.
// With `ids` in an id space of its own, where the kernel permits it.
Result<Tracee> launch(const LaunchRequest& request, IdSpace* ids = nullptr);

}  // namespace shadowprof::ptrace
