// SPDX-License-Identifier: MIT
//
// What wait(2) says about a traced thread, decoded once. A raw status packs six unrelated reports
// into 32 bits (ptrace(2), "Stopped states"); everything else switches on Kind.
//
// A stop is one of:
//   signal_stop   signal-delivery-stop: a signal was taken from the queue and waits for our
//                 verdict. Resuming with 0 drops it, with a number delivers that one.
//   group_stop    the process is stopped by a stop signal. Resume with Tracee::listen to leave it
//                 stopped, or run it anyway.
//   syscall_stop  entry or exit of a system call (Tracee::syscall); which one is not in the status.
//   event         the thread reports something: see Event.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

namespace shadowprof::ptrace {

enum class StopEvent : uint8_t {
  none,
  fork,        // the parent, inside fork; Tracee::event_message is the child
  vfork,       // the same; resuming blocks until the child executes or exits
  vfork_done,  // the parent, child has executed or exited
  clone,       // the parent; also pthread_create
  exec,        // the new image is loaded; event_message is the thread's former id. All other
               // threads of the process are gone, and the thread now has the leader's id.
  exit,        // the thread is dying, its memory and registers can still be read; event_message
               // is its wait status. Not certain after SIGKILL. Must be resumed: if the process is
               // exiting already, not even SIGKILL wakes it from here.
  seccomp,     // a filter asked for its tracer (SECCOMP_RET_TRACE)
  stop,        // Tracee::interrupt took effect; or a newly traced child's first stop; or a group
               // stop ended (also: was begun) while we listened
  unknown,     // an event that this program does not know
};

class WaitStatus {
 public:
  enum class Kind : uint8_t { exited, killed, signal_stop, group_stop, syscall_stop, event };

  static WaitStatus from_raw(int status);
  // From waitid(2)'s report.
  static WaitStatus from_waitid(const siginfo_t& report);
  // From what PTRACE_GETSIGINFO says in a stop of a seized thread: si_code then carries what wait
  // reported (kernel/signal.c ptrace_do_notify), unless the stop is for a signal.
  static WaitStatus from_stop_siginfo(const siginfo_t& info);

  Kind kind() const { return kind_; }
  int exit_code() const { return value_; }  // exited
  int signal() const { return value_; }     // killed, signal_stop, group_stop
  bool core_dumped() const { return core_dumped_; }
  StopEvent event() const { return event_; }  // none unless kind is event

  bool is_dead() const { return kind_ == Kind::exited || kind_ == Kind::killed; }
  bool is_stop() const { return !is_dead(); }
  bool is_event(StopEvent e) const { return kind_ == Kind::event && event_ == e; }
  // It is dead, dies, or becomes another program.
  bool ends_the_thread() const {
    return is_dead() || is_event(StopEvent::exit) || is_event(StopEvent::exec);
  }
  bool is_signal_stop(int signal) const { return kind_ == Kind::signal_stop && value_ == signal; }
  // Inside the signal code of the kernel and not for a signal: our interrupt, or a group stop.
  bool is_trap() const { return kind_ == Kind::group_stop || is_event(StopEvent::stop); }

  bool operator==(const WaitStatus&) const = default;

 private:
  Kind kind_ = Kind::exited;
  StopEvent event_ = StopEvent::none;
  bool core_dumped_ = false;
  int value_ = 0;
};

std::string to_string(const WaitStatus& status);

}  // namespace shadowprof::ptrace
