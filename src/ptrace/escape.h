// SPDX-License-Identifier: MIT
//
// What a thread does by itself if its tracer dies in the middle of a system call that it makes for
// us: it returns to what it was doing, with all its registers and its signal mask.
//
//   stack, downwards:   the program's own | red zone | extended state, signal frame | child's frame
//
// The call is made by a `syscall; ret` with the stack pointer at a signal frame like those that the
// kernel makes for handlers; so without us the thread goes on to the C library's rt_sigreturn,
// which loads the frame. A child that the call makes begins with a frame of its own, behind which
// is exit_group: a copy of the program that nobody holds must not run on.
//
// It takes memory below the red zone. That is nobody's where the thread is on a stack of its own
// (elsewhere, a coroutine's stack may be small and what lies below another object). What was there
// is put back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "ptrace/remote_memory.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// Where a program has what an escape takes.
struct EscapeRoute {
  GuestAddr syscall_and_return;  // 0f 05 c3
  GuestAddr sigreturn;           // loads its number, and makes the system call
};

// Nothing: it has not got all of it.
std::optional<EscapeRoute> find_escape_route(std::span<const GuestRange> executable,
                                             RemoteMemory& memory);

// Has it got all of it still?
bool is_escape_route(const EscapeRoute& route, std::span<const GuestRange> executable,
                     RemoteMemory& memory);

class Escape {
 public:
  // `stack`: of the thread.
  Escape(const EscapeRoute& route, GuestRange stack) : route_(route), stack_(stack) {}

  // `saved`: the registers with which the thread is to go on, it is not in a system call. False:
  // there is no room, or no state; nothing has changed.
  bool put(Tracee tracee, RemoteMemory& memory, const Registers& saved, SignalMask mask);
  bool is_in_place() const { return !before_.empty(); }
  // Before the first call, and between calls: without us the thread escapes at once.
  void stand_by(Registers& registers) const;
  // For a call.
  void set_out(Registers& registers) const;
  GuestAddr syscall_insn() const { return route_.syscall_and_return; }
  // For clone(2) without CLONE_VM.
  GuestAddr stack_of_child() const { return child_; }
  // Below all of it.
  GuestAddr bottom() const { return bottom_; }
  // The memory is as it was.
  Status take_out(RemoteMemory& memory);

 private:
  EscapeRoute route_;
  GuestRange stack_;
  GuestAddr bottom_;
  GuestAddr child_;
  GuestAddr own_;
  std::vector<uint8_t> before_;
};

}  // namespace shadowprof::ptrace
