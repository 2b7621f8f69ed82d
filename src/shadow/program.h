// SPDX-License-Identifier: MIT
//
// The profiled program while it runs natively under us: its traced threads, and the three things
// that are done to it.
//
//   on_stop()   what the kernel reports between samples (signals, group stops, deaths) is passed on
//               at once and unchanged
//   Pause       (pause.h) for a sample: the threads that are running are stopped
//   look_at()   one thread that runs is stopped, to see where it is, and goes on at once
//
// Threads are traced without options that make them stop: a new thread is noticed when the next
// sample lists them. One that is sent signals goes on untraced until then, as it would stand still
// at each of them. Processes that it makes are traced from their birth if they are followed. Our
// death leaves the program running: nothing but the pause itself is ever pending in it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernel/proc.h"
#include "ptrace/cut_call.h"
#include "ptrace/forward_progress.h"
#include "ptrace/interruption.h"
#include "ptrace/tracee.h"
#include "ptrace/wait.h"
#include "ptrace/wait_status.h"
#include "shadow/input_log.h"

namespace shadowprof::shadow {

enum class Follow : uint8_t { no, children };
// With which its threads are traced.
ptrace::TraceOptions trace_options(Follow follow);

// A thread that was looked at.
struct SeenThread {
  using Clock = std::chrono::steady_clock;
  Tid thread;
  ptrace::Registers registers{};  // as its stop has found them
  Clock::time_point asked_at;     // it was found to run, or to wait for a processor
  Clock::time_point stopped_at;
  kernel::ScheduleTimes before;                  // when it was asked to stop
  std::optional<kernel::ScheduleTimes> at_stop;  // nothing: it had stopped before it could sleep
};

class Program {
 public:
  // `process` was launched by us and stands at its exec event.
  static Program launched(ptrace::Tracee process, Follow follow);
  // Begins to trace all threads of a running process.
  static Result<Program> attach(Tid process, Follow follow);
  // A child of a followed one, traced since its birth.
  static Program born(Tid process);

  Tid pid() const { return pid_; }
  bool is_ours() const { return is_child_; }  // we launched it: its children can be ours, too
  bool alive() const { return !end_; }
  const std::optional<ptrace::WaitStatus>& end() const { return end_; }
  // Grows when the program has executed another one: everything known of its memory is out of date.
  unsigned generation() const { return generation_; }
  bool owns(Tid tid) const { return threads_.contains(tid); }
  uint64_t signals() const { return signals_; }
  ptrace::TraceOptions options() const { return trace_options(follow_); }

  // A report about one of our threads, outside a pause; it may be `waited` seconds old.
  void on_stop(Tid tid, const ptrace::WaitStatus& status, double waited = 0);
  // Threads that are sent signals for which they have handlers are left to themselves.
  void leave_signalled(bool leave) { leaves_signalled_ = leave; }
  // From the next resume on, as long as the log wants it.
  void keep_log(std::shared_ptr<InputLog> log) { log_ = std::move(log); }
  // Processes that it made since the last call, if they are followed. They are traced, and stop
  // before their first instruction, perhaps already or only later.
  std::vector<Tid> take_children() { return std::exchange(children_, {}); }
  // Does any of its threads run?
  bool is_running();

  // As far as is known.
  size_t thread_count() const;
  bool is_traced() const { return !threads_.empty(); }
  std::vector<Tid> threads() const;

  // Asks one of its threads to stop, if it runs or waits for a processor. At the stop, which is
  // reported as any other, it is noted where it is. A thread that is asked again before that stops
  // once. False: it sleeps, and is left alone.
  bool look_at(Tid tid);
  bool has_seen(Tid tid) const;
  std::vector<SeenThread> take_seen() { return std::exchange(seen_, {}); }
  // Traces threads that are new, or were left to themselves.
  void adopt_new_threads() { adopt(Left::too); }
  // The kernel does not tell when a thread that nobody traced yet executes a program: who was
  // traced under the process's number is gone then without a report, and its successor is not
  // traced (ptrace(2), "execve(2) under ptrace"). From now on it is. False: nothing of the kind, or
  // it cannot be traced.
  bool follow_unseen_exec();
  // Ends tracing: every thread is stopped for a moment and let go. One that waits uninterruptibly,
  // or in a call that a stop would cut short, is still traced then: detach() again, or our own end,
  // lets it go.
  void detach();

 private:
  friend class Pause;
  Program(Tid pid, Follow follow) : pid_(pid), follow_(follow) {}

  struct Thread {
    bool interrupted = false;  // by us, and it has not shown the stop for that
    bool was_awake = false;    // when it was interrupted last
    unsigned signals = 0;      // that it was sent since it is traced
    ptrace::SignalledSleep sleep{};
    ptrace::RestartedCall restarted{};
    ptrace::CutCall cut{};
    ptrace::ForwardProgress progress{};
    std::optional<SeenThread> look{};  // it was asked to stop for one
  };
  enum class Left : uint8_t { alone, too };
  void adopt(Left those_left);
  enum class Found : uint8_t { awake, perhaps_asleep };
  bool interrupt(Tid tid, Found found = Found::perhaps_asleep);
  void note_seen(Tid tid, Thread& thread, const ptrace::Registers& registers);
  class GoesOn;  // a thread at a stop, from the end of a scope on
  // What is due at each stop of a thread, once: what our being there has done to its system call is
  // undone, the log sees it, and a child that it makes there is noted.
  void see(ptrace::Tracee thread, const ptrace::WaitStatus& status, ptrace::Registers& registers,
           double waited = 0);
  void conceal(ptrace::Tracee thread, const ptrace::WaitStatus& status,
               ptrace::Registers& registers);
  // The next stop of a thread that was interrupted, or is to stop at its calls. That is seen, and
  // no thread is forgotten: an Error leaves the report of its end to who waits for any thread.
  // ESRCH: it is dying, or becomes another program; else it stops later, as wait_for_stop() says.
  struct Taken {
    ptrace::WaitStatus stop;
    ptrace::Registers registers{};
    bool is_of_call() const { return stop.kind() == ptrace::WaitStatus::Kind::syscall_stop; }
    // With which the thread goes on.
    int signal() const {
      return stop.kind() == ptrace::WaitStatus::Kind::signal_stop ? stop.signal() : 0;
    }
  };
  Result<Taken> take(Tid tid, ptrace::Moment give_up_at = ptrace::Moment::max());
  bool mend_cut_call(ptrace::Tracee thread, const ptrace::WaitStatus& status,
                     ptrace::Registers& registers);
  bool has_cut_call(Tid tid) const;
  // Waits for its end, if that comes soon: then it is interrupted behind the call.
  enum class CutCallEnd : uint8_t { soon, later, never };  // the thread is gone
  CutCallEnd wait_for_cut_call(Tid tid);
  void leave_cut_call(Tid tid);
  // What was decided of its system call at the stop, again: filters may have come since.
  void look_again_at_call(ptrace::Tracee thread);
  void go_on(ptrace::Tracee thread, int signal = 0);
  std::optional<std::chrono::microseconds> begin_hold(ptrace::Tracee thread, Thread& known,
                                                      int signal);
  bool try_detach(Tid tid, std::set<Tid>& ending);
  bool is_namespace_init();
  bool let_die(ptrace::Tracee thread, int signal);
  enum class MayLeave : uint8_t { no, yes };
  void handle_stop(Tid tid, const ptrace::WaitStatus& status, double waited, MayLeave may_leave);
  bool leave_to_itself(ptrace::Tracee thread, int signal);
  void resume_from(ptrace::Tracee thread, const ptrace::WaitStatus& status);
  void on_exec(Tid tid);
  void begin_anew();
  bool has_become_process(Tid tid) const;
  bool is_replaced(ptrace::Tracee thread) const;
  void note_child(ptrace::Tracee parent);

  Tid pid_;
  Follow follow_;
  bool is_child_ = false;
  bool leaves_signalled_ = false;
  std::optional<bool> is_namespace_init_;  // once it was asked
  std::map<Tid, Thread> threads_;
  std::set<Tid> left_;  // to themselves at least once; traced again or not
  std::vector<Tid> children_;
  std::vector<SeenThread> seen_;
  std::shared_ptr<InputLog> log_;
  std::optional<ptrace::WaitStatus> end_;
  unsigned generation_ = 0;
  uint64_t signals_ = 0;
  bool may_be_lost_ = false;  // the thread with the process's number may be another, untraced one
};

}  // namespace shadowprof::shadow
