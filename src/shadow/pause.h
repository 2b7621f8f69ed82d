// SPDX-License-Identifier: MIT
//
// The moment of a sample: the threads of the program that are running are stopped, and go on when
// it ends. Threads that sleep in the kernel are neither stopped nor woken.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shadow/program.h"

namespace shadowprof::shadow {

// One thread during a pause. Its registers are those with which it will go on.
struct PausedThread {
  ptrace::Tracee tracee;
  ptrace::WaitStatus stop;
  ptrace::Registers registers;
  // Signals that arrived while it made a system call for us.
  std::vector<siginfo_t> deferred{};
};

class Pause {
 public:
  enum class Whom : uint8_t {
    running,      // the threads that run now; none may be: then the program sleeps
    one_running,  // of those the one with this number, counted round; the others go on
    one,          // any one thread, to make a system call
    everyone,     // those that sleep, too: nobody sees what is done meanwhile. They go on sleeping.
  };
  explicit Pause(Program& program, Whom whom = Whom::running, uint64_t number = 0);
  // Everything goes on.
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  std::vector<PausedThread>& threads() { return threads_; }
  Tid process() const { return program_.pid(); }
  // All but the first go on already.
  void let_others_go();
  // The first goes on until that many system calls of its are over. False: it has not come so far
  // soon, and goes on by itself.
  bool walk_over_calls(unsigned calls);
  // The process is group-stopped or dying, or not all have stopped in time: no sample now.
  bool unusable() const { return unusable_; }
  // Whoever stands still has done so for as long as a pause may last: what is still to be done for
  // the sample is given up. Where processors are scarce each call of ours may wait for one.
  bool is_overdue() const;
  // Whether a sample can be taken: EAGAIN where the program sleeps or ends, ETIMEDOUT where it is
  // overdue.
  Status is_usable() const;
  // Seconds since the constructor began for which the program did not stand still: until it was
  // asked to, while the only thread that was asked waited for a processor, and between the calls
  // that one has walked over.
  double went_on_s() const { return went_on_s_; }
  // One of its threads has stopped for it, whatever came of that.
  bool has_stopped_any() const { return stands_since_.has_value(); }

 private:
  void stop_one();
  void stop_one_running(uint64_t number);
  std::optional<ptrace::WaitStatus> next_call_stop(ptrace::Tracee thread);
  // All that are in one of these states, as in /proc/TID/stat.
  void stop_all(std::string_view states);
  // For a thread that was interrupted. One that waits uninterruptibly stops when that is over.
  void take_stop(Tid tid);
  void give_back_signals(PausedThread& thread);
  void resume(PausedThread& thread);
  void let_sleepers_go();

  Program& program_;
  std::vector<PausedThread> threads_;
  // Those of several that were asked first may have stopped while another one is waited for.
  std::optional<ptrace::Moment> some_stand_since() const;

  std::optional<ptrace::Moment> asked_since_;   // several of them
  std::optional<ptrace::Moment> stands_since_;  // the first of its threads
  bool unusable_ = false;
  double went_on_s_ = 0;
};

}  // namespace shadowprof::shadow
