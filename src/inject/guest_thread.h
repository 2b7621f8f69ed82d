// SPDX-License-Identifier: MIT
//
// A guest thread under the engine. It is always in one of two contexts:
//
//   engine   its registers are those of translated code: rip in the cache, r15 the trace cursor,
//            gs_base its slot. It runs freely.
//   guest    its registers are exactly those that the program would have natively. It is stopped,
//            or executes one thing (a system call, an instruction, the delivery of a signal) at
//            its own address under our eyes.
#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "cache/address_space.h"
#include "inject/fixed/socket_timeout.h"
#include "inject/fixed/time_calls.h"
#include "inject/fixed/timed_wait.h"
#include "inject/restartable.h"
#include "ptrace/cut_call.h"
#include "ptrace/interruption.h"
#include "ptrace/storm_count.h"
#include "ptrace/tracee.h"

namespace shadowprof::inject {

class GuestProcess;

struct GuestThread {
  GuestThread(Tid tid, GuestProcess& owner, ptrace::TraceOptions in_engine_options)
      : tracee(tid), options(in_engine_options), process(&owner) {}

  ptrace::Tracee tracee;
  ptrace::TraceOptions options;  // while the engine has it
  GuestProcess* process;
  cache::Slot* slot = nullptr;
  bool in_engine = false;        // which context its registers are of
  uint64_t guest_gs_base = 0;
  size_t buffer = 0;             // which of the slot's buffers is being filled
  uint64_t cursor = 0;           // guest address; valid while in guest context, or executing
  bool executing = false;        // in execve, and `cursor` is where its trace ends
  bool in_vfork = false;         // sleeps until its child executes or exits
  Tid last_child;                // that it has told of
  bool leaves = false;           // goes native as soon as it stops, or by itself
  bool trapped = false;          // runs in guest context (engine_trapped.cc, engine_sequences.cc)
  bool concluded = false;        // nothing will be added to its trace
  bool is_dying = false;         // at the end of a burst: only its exit event tells its cursor
  bool in_group_stop = false;    // when it was brought to guest context
  uint64_t tickets[emu::kBufferCount] = {};  // of the buffers' last submission
  // Tracked, because a trap of ours that the program blocks makes the kernel unblock it: exact as
  // to what instructions raise, and else behind refresh_mask() (guest_signals.h).
  ptrace::SignalMask blocked = 0;
  // Signals that arrived while the thread did something for us; given back when it is exact.
  std::vector<siginfo_t> deferred;
  // See sequence_watch.h.
  GuestAddr rseq;                // its struct rseq, which is watched; null: none
  std::optional<RestartableSequence> announced{};
  std::optional<RestartableSequence> under_way{};
  std::optional<TimedWait> wait{};        // the call that it is in (fixed/program_time.h)
  std::optional<SocketTimeout> socket{};  // until it sleeps in that call
  std::optional<ChildUsage> usage{};      // that its call is to tell
  // See fixed/turn_keeper.h.
  uint64_t number = 0;     // of all threads that there were
  bool parked = false;     // stopped, and goes on when it has the turn
  bool in_call = false;    // in the gateway, in a call behind which it stops
  bool expires = false;    // interrupted, because the time of its call is over
  bool ending = false;     // behind its exit event
  bool sleeps_deeply = false;  // in its call, uninterruptibly, and for long
  unsigned call = 0;       // the number of its last one
  UniqueFd stat;           // /proc/TID/stat
  UniqueFd present_call;   // /proc/TID/syscall
  // See signal_storm.h.
  ptrace::Registers returned_to{};  // by the last sigreturn, or behind an ignored signal
  ptrace::SignalledSleep sleep{};  // through ignored signals
  ptrace::CutCall cut{};           // by one
  ptrace::StormCount storm{};       // of interruptions there
  bool holding = false;             // the kernel keeps signals back, all system calls come to us
  ptrace::Registers hold_start{};   // where it was set going

  // It comes to us behind the call that it is about to make in the gateway.
  void stop_behind_call() {
    slot->state().stops_behind_call = 1;
    slot->state().leaves = 1;
    in_call = true;
  }
  // It has, or is not to any more.
  void go_on_behind_call() {
    slot->state().stops_behind_call = 0;
    slot->state().leaves = 0;
    in_call = false;
  }
};

}  // namespace shadowprof::inject
