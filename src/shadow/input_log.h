// SPDX-License-Identifier: MIT
//
// What the program was given by the kernel while a replica of it lived.
//
// A replica has none of the program's pipes, sockets and terminals. So the threads that it has from
// the program stop at their system calls meanwhile, and what these gave is kept here, thread by
// thread. The replica does what the program did, only later: it makes the same calls in the same
// order, and gets the same answers. A call of the replica's takes the next entry of its thread that
// is the same call; what lies before was made by the replica itself, or not at all.
//
//   program   on_stop()   at each of its system calls' entries and exits, until `is_full`
//   replica   take()      for a call that it cannot make itself
//
// Both sides are served by one thread.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "ptrace/remote_memory.h"
#include "ptrace/tracee.h"
#include "shadow/kernel_writes.h"

namespace shadowprof::shadow {

struct LoggedCall {
  long nr = -1;
  SyscallArguments args{};
  int64_t result = 0;
  // What it wrote, in the order of kernel_writes().
  std::vector<std::vector<uint8_t>> writes;
};

class InputLog {
 public:
  // `most_seconds`: what it may cost the program; then it is full.
  InputLog(Tid process, const std::vector<Tid>& threads, double most_seconds);

  // --- The program

  bool follows(Tid thread) const { return !full_ && threads_.contains(thread); }
  // At a syscall stop. `waited`: how long it may have stood there, in seconds.
  void on_stop(ptrace::Tracee thread, double waited);
  // A call that the thread has made.
  void add(Tid thread, LoggedCall call);
  bool is_open() const { return !full_; }
  // Nothing will be added any more.
  void close() {
    full_ = true;
    news_++;
  }
  // What the stops cost the program, in seconds.
  double cost() const { return cost_; }
  uint64_t stops() const { return stops_; }

  // --- The replica

  enum class Taken : uint8_t {
    taken,
    not_yet,  // the program has not made it
    never,    // nor will it be seen: the log is full, or the program does something else
  };
  Taken take(Tid thread, long nr, const SyscallArguments& args, LoggedCall& out);
  uint64_t taken() const { return taken_; }
  // Grows with the log, and when it is full.
  uint64_t news() const { return news_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Thread {
    std::optional<LoggedCall> entered;
    Clock::time_point resumed{};
    std::deque<LoggedCall> calls;
  };

  void on_exit(Tid tid, Thread& thread, int64_t result);

  std::map<Tid, Thread> threads_;
  ptrace::RemoteMemory memory_;
  double most_seconds_;
  double cost_ = 0;
  // A thread's way from our resuming it to its next stop, at least.
  double round_trip_;
  uint64_t stops_ = 0;
  uint64_t taken_ = 0;
  uint64_t news_ = 0;
  size_t bytes_ = 0;
  bool full_ = false;
};

// A replica's wait for a call that the program has not made yet.
class AwaitedCall {
 public:
  enum class Next : uint8_t {
    wait,
    ask,      // the log is longer, or complete
    give_up,  // the program waits, too
  };
  // Asked, and there was no answer.
  void no_answer(const InputLog& log);
  void over() { waits_ = false; }
  bool waits() const { return waits_; }
  Next next(const InputLog& log) const;

 private:
  bool waits_ = false;
  uint64_t news_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace shadowprof::shadow
