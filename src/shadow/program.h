// SPDX-License-Identifier: MIT
//
// The profiled program while it runs natively under us: its traced threads, and the two things that
// are done to it.
//
//   on_stop()   what the kernel reports between samples (signals, group stops, deaths) is passed on
//               at once and unchanged
//   Pause       for a sample: the threads that are running are stopped, and go on when it ends.
//               Threads that sleep in the kernel are neither stopped nor woken.
//
// Threads are traced without options that make them stop: a new thread is noticed when the next
// sample lists them. Our death leaves the program running: nothing but the pause itself is ever
// pending in it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernel/proc.h"
#include "ptrace/tracee.h"
#include "ptrace/wait.h"
#include "ptrace/wait_status.h"

namespace shadowprof::shadow {

// A system call of the tracer's needs the first; the second tells that the memory is another one.
inline constexpr ptrace::TraceOptions kProgramOptions =
    ptrace::TraceOptions::mark_syscall_stops | ptrace::TraceOptions::report_exec;

class Program {
 public:
  // `process` was launched by us and stands at its exec event.
  static Program launched(ptrace::Tracee process);
  // Begins to trace all threads of a running process.
  static Result<Program> attach(Tid process);

  Tid pid() const { return pid_; }
  bool is_ours() const { return is_child_; }  // we launched it: its children can be ours, too
  bool alive() const { return !end_; }
  const std::optional<ptrace::WaitStatus>& end() const { return end_; }
  // Grows when the program has executed another one: everything known of its memory is out of date.
  unsigned generation() const { return generation_; }
  bool owns(Tid tid) const { return threads_.contains(tid); }
  uint64_t signals() const { return signals_; }

  // A report about one of our threads, outside a pause.
  void on_stop(Tid tid, const ptrace::WaitStatus& status);

  // Traces threads that are new.
  void adopt_new_threads();
  // Ends tracing: every thread is stopped for a moment and let go.
  void detach();

 private:
  friend class Pause;
  explicit Program(Tid pid) : pid_(pid) {}

  void resume_from(ptrace::Tracee thread, const ptrace::WaitStatus& status);
  void on_exec(Tid tid);

  Tid pid_;
  bool is_child_ = false;
  std::set<Tid> threads_;
  std::optional<ptrace::WaitStatus> end_;
  unsigned generation_ = 0;
  uint64_t signals_ = 0;
};

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
    running,  // the threads that run now; none may be: then the program sleeps
    one,      // any one thread, to make a system call
  };
  explicit Pause(Program& program, Whom whom = Whom::running);
  // Everything goes on.
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  std::vector<PausedThread>& threads() { return threads_; }
  // The process is group-stopped or dying: no sample now.
  bool unusable() const { return unusable_; }

 private:
  void stop_running();
  void stop(Tid tid);
  void give_back_signals(PausedThread& thread);

  Program& program_;
  std::vector<PausedThread> threads_;
  bool unusable_ = false;
};

}  // namespace shadowprof::shadow
