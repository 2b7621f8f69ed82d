// SPDX-License-Identifier: MIT
//
// A system call that moves bytes and is interrupted (Tracee::interrupt) says how many it has moved
// by then: a write into a full pipe, one to a socket or terminal, a read that must be complete.
// Without us it would have gone on. So it does: what is left is another call at the same place, and
// the program sees one with all of it.
//
//   begin()   at the stop that has cut it; the thread then goes on past its system calls
//             (Tracee::syscall_if_alive) while is_active()
//   look()    at every later stop of the thread
//   finish()  at any stop that look() has seen and that is not inside, to leave it as it is
//
// What a signal with a handler cuts short stays so, as without us. A call that waits for long is
// one that sleeps: it takes no part in pauses. If we are killed meanwhile, the program is told of
// the last part only.
#pragma once

#include <cstdint>

#include "machine/registers.h"
#include "ptrace/tracee.h"
#include "ptrace/wait_status.h"

namespace shadowprof::ptrace {

class CutCall {
 public:
  // Who sleeps in this call may have moved some.
  static bool may_sleep_between_bytes(uint64_t number, uint64_t flags);
  // Nothing but an interrupt, or a signal, makes a call with this answer stop here.
  static bool is_cut(Tracee thread, const machine::Registers& registers);

  bool is_active() const { return active_; }
  // Between the stops for the entry and the exit of the call that moves the rest: whether it has
  // moved some is not known.
  bool is_inside() const { return inside_; }
  // The thread's, behind the call, while it is active.
  const machine::Registers& original() const { return original_; }
  // For a call that is_cut(); the caller sets the registers.
  void begin(machine::Registers& registers);
  // True if changed; the caller sets the registers. `handled`: the stop is for a signal that runs a
  // handler.
  bool look(Tracee thread, const WaitStatus& status, bool handled, machine::Registers& registers);
  // The caller sets the registers.
  void finish(machine::Registers& registers);
  // With the registers of finish(), where what was left had not been begun: is_cut() may know it of
  // the first time alone.
  bool is_still_cut(const machine::Registers& registers) const;

 private:
  uint64_t left() const;
  bool is_cut_again(Tracee thread, int64_t answer) const;
  void go_on(machine::Registers& registers);

  machine::Registers original_{};  // behind the call
  uint64_t done_ = 0;              // bytes
  bool active_ = false;
  bool inside_ = false;
  bool goes_on_ = false;       // the registers are those of another call
  bool was_to_go_on_ = false;  // at the last finish()
};

}  // namespace shadowprof::ptrace
