// SPDX-License-Identifier: MIT
//
// A copy-on-write replica of the paused program, stopped, and safe: it holds no pipe, socket or
// device of the program's, dies with us, and has never executed an instruction
// of its own.
//
//   the program's thread makes clone(2) for us, with exit signal 0: its end tells nobody
//     -> where we launched the program, CLONE_PARENT makes the replica our own child
//     -> else its zombie stays with the program until reap() makes it wait for it, at a later pause
//   the replica leaves the descriptor table (descriptors.h); only then does the program go on
//
// It is not known yet what to do with it: that is the executor's business.
#pragma once

#include <time.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kernel/proc.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/tracee.h"
#include "shadow/descriptors.h"
#include "shadow/pause.h"

namespace shadowprof::shadow {

// A thread of the program as it enters the replica.
struct GuestContext {
  Tid tid;
  ptrace::Registers registers;  // of the guest, at one of its instructions
  // Empty for the thread that was forked from: the replica has it already.
  ptrace::ExtendedState extended;
};

struct Replica {
  ptrace::Tracee tracee;
  std::vector<GuestContext> threads;  // the first is the one that was forked from
  Tid beside;                         // that one in the program, by our own name
  Descriptors descriptors;
  bool is_our_child = false;
  bool at_idle_priority = true;  // when it runs; not while it is prepared, which is waited for
  int64_t parent_pid = -1;  // of the program; negative: not known
  timespec forked_at{};     // by the clock that files are marked with
  // What the program's threads are given meanwhile; may be null.
  std::shared_ptr<InputLog> log{};
  std::vector<GuestRange> mapped_anew{};  // file_mappings.h
};
// Who has left the program's descriptor table may make all other calls, too.
inline const ptrace::Caller kReplica{
    ptrace::TraceOptions::mark_syscall_stops | ptrace::TraceOptions::exit_kill, true};

struct ForkOptions {
  // The program has, or may have, memory that it wants no child to have (MADV_DONTFORK; V8 does
  // that to all its heap): it is made forkable for the moment. To find it takes time.
  bool all_memory = false;
  // It gets the processor when nobody else wants it: right where there are idle cores. Where there
  // are none it would hardly run, and hold memory all the while: then it runs like everybody.
  bool at_idle_priority = true;
  // How the program's thread goes on if we die meanwhile; searched with `syscall_insn`.
  std::optional<ptrace::EscapeRoute> escape{};
  // The program's, as they were lately: where stacks are.
  std::vector<kernel::Mapping> mappings{};
};

// Where a running program has a `syscall` instruction, for fork_replica() and reap(), and what an
// escape takes: where they were `known` to be, if they still are there. Else both are looked for in
// all of its code, so do it before a pause.
Result<GuestAddr> find_calls(Tid process, ForkOptions& options, GuestAddr known);

// During `pause`. An Error leaves the program as it was; there is no replica then. EPERM: its
// filters allow no call of ours. EBUSY: somebody wants to be told of forks (kernel/user_faults.h),
// perhaps a thread of its own; where that was seen only as the fork waited, the others go on
// already. Or its children are born into other namespaces (kernel/namespaces.h). It is for
// good in all three cases. `all_memory` is cleared where it turns out not to be
// needed. `zombies`: what is still to be reaped of a replica that was made in vain.
Result<Replica> fork_replica(Program& program, Pause& pause, GuestAddr syscall_insn,
                             ForkOptions& options, std::vector<Tid>& zombies);

// What is left to do for a new replica when the program goes on again: where memory runs out it is
// the first to go, it has a process group of its own, signals that others send wait forever, and it
// keeps nobody from executing a file that the program has mapped. The mappings are the program's,
// as they were lately.
void make_humble(Replica& replica, GuestAddr syscall_insn,
                 const std::vector<kernel::Mapping>& mappings);

// Kills it, and waits for its end. Its zombie, if it is the program's child, is still to be reaped.
void kill_replica(Tid replica);

// Is a call to be made where the thread would find its way back from another stop, but not from
// this one? Then reap() says EAGAIN, as fork_replica() always does.
enum class WayBack : uint8_t { needed, if_possible };

// At a pause: the program waits for its dead replicas, so that it has no more zombies than before.
Status reap(const Program& program, Pause& pause, GuestAddr syscall_insn,
            const ForkOptions& options, std::vector<Tid>& zombies,
            WayBack way_back = WayBack::needed);

}  // namespace shadowprof::shadow
