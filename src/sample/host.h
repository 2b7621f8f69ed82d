// SPDX-License-Identifier: MIT
//
// What a run says about where and when it was, and the signals that we pass on.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "profile/profile.h"

namespace shadowprof::sample {

// What is known of a run when it begins; the engine is the translator.
profile::Run begin_run(const char* mode, const std::vector<std::string>& command,
                       const std::map<std::string, std::string>& options, uint64_t seed);
// The program has executed another one. The first in the list is what the run began with.
void note_image(profile::Run& run, double at_s, std::vector<std::string> command);
std::string utc_now();  // "2025-01-31T12:00:00Z"

// An Error: what we know programs by is not there, or is about other processes.
Status check_proc();

// While a program runs under us: ctrl-C and ctrl-\ reach it by itself, so we ignore them; SIGTERM
// and SIGHUP sent to us are noted and passed on. What it sends to its process group, which is ours,
// is not for us (ignore_group_signals). Writes to closed pipes and beyond the file
// size limit are errors and not our death. So is the end of our processor time, shortly before it.
void prepare_signals();
void forward_signals_to(Tid program);
// Signals that end who does not expect them: they mean nothing to us, but where they are awaited
// (awaited_signals) or get a handler later.
void ignore_group_signals();
bool out_of_processor_time();
inline constexpr const char* kOutOfProcessorTime =
    "shadowprof's own processor time is used up (ulimit -t)";
// Tells a process that samples that who started it is gone.
inline constexpr int kFrontDied = SIGUSR1;
// Others may send that, too. The calling process is a child of `front`.
void note_front(Tid front);
bool front_is_gone();
// Who sent a signal that came to us, or to the front, which passes it on.
Tid sender_of(const siginfo_t& info);
// To a run that samples: write the profile so far, and go on.
inline constexpr int kDumpWanted = SIGUSR2;
// Somebody wants to talk to a run that samples (control_socket.h).
inline constexpr int kControlWanted = SIGIO;
// Where one thread waits for reports and for the clock at once: these signals are blocked, and
// fetched with sigtimedwait(2).
sigset_t awaited_signals();
void block_awaited_signals();

// Limits that we inherited but that are meant for the program: with few open files, small files or
// little address space we could not do our own work. Raised for us as far as is allowed, and given
// to the program as they were.
class InheritedLimits {
 public:
  // An Error says which limit is too low, and what is needed; one of threads, too.
  static Result<InheritedLimits> raise();
  void give_to(Tid program) const;

 private:
  InheritedLimits() = default;
  struct Limit {
    int resource = 0;
    rlimit inherited{};
  };
  std::vector<Limit> limits_;
};
// Both of the above, before anything is started or attached to.
Result<InheritedLimits> prepare_to_run();

}  // namespace shadowprof::sample
