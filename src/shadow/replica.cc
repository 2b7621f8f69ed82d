// SPDX-License-Identifier: MIT
#include "shadow/replica.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "base/log.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::shadow {

using ptrace::TraceOptions;

namespace {

constexpr TraceOptions kProgramOptions =
    TraceOptions::mark_syscall_stops | TraceOptions::report_exec;
constexpr TraceOptions kReplicaOptions = TraceOptions::mark_syscall_stops | TraceOptions::exit_kill;

Result<GuestAddr> find_syscall(Tid process) {
  SP_ASSIGN(const auto mappings, kernel::read_maps(process));
  std::vector<GuestRange> executable;
  for (const kernel::Mapping& m : mappings) {
    if (m.executable)
      executable.insert(m.path == "[vdso]" ? executable.begin() : executable.end(), m.range);
  }
  ptrace::RemoteMemory memory(process);
  return ptrace::find_syscall_instruction(executable, memory);
}

// As the thread will go on: a system call that the kernel would restart is at its instruction
// again.
ptrace::Registers as_guest(ptrace::Registers registers) {
  if (registers.restart_pending()) {
    registers.rip -= machine::kSyscallInsnBytes;
    registers.rax = registers.orig_rax;
  }
  registers.orig_rax = machine::kNoSyscall;
  return registers;
}

Status read_contexts(const Pause&, std::vector<PausedThread>& paused,
                     std::vector<GuestContext>& contexts) {
  for (PausedThread& thread : paused) {
    GuestContext context{thread.tracee.tid(), as_guest(thread.registers), {}};
    if (!contexts.empty() && !thread.tracee.get_extended_state_if_alive(context.extended)) {
      return ptrace::thread_is_gone(thread.tracee.tid());
    }
    contexts.push_back(std::move(context));
  }
  return {};
}

// Idle: it gets what nobody else wants. Signals that others send to its process group wait forever.
void make_humble(ptrace::Tracee replica) {
  const sched_param none{};
  (void)::sched_setscheduler(replica.tid().value, SCHED_IDLE, &none);
  (void)replica.set_signal_mask_if_alive(ptrace::hold_signals(0));
}

}  // namespace

Result<Replica> fork_replica(Program& program, Pause& pause, GuestAddr& syscall_insn) {
  if (syscall_insn.value == 0) {
    SP_ASSIGN(syscall_insn, find_syscall(program.pid()));
  }
  const ptrace::Tracee parent = pause.threads().front().tracee;
  Replica replica{ptrace::Tracee(Tid()), {}, {}, Descriptors::of(program.pid()), program.is_ours()};
  SP_TRY(read_contexts(pause, pause.threads(), replica.threads));

  if (!parent.set_options_if_alive(kProgramOptions | TraceOptions::follow_clone)) {
    return ptrace::thread_is_gone(parent.tid());
  }
  Status closed;
  {
    ptrace::RemoteSyscalls remote(parent, syscall_insn);
    const uint64_t flags = CLONE_FILES | (replica.is_our_child ? CLONE_PARENT : 0);
    const Result<int64_t> made = remote.call(SYS_clone, flags, 0, 0, 0, 0);
    const Tid child = remote.child_of_last_call();
    if (made && *made > 0 && child.value != 0) {
      replica.tracee = ptrace::Tracee(child);
      if (ptrace::wait_for_stop(child)) {
        (void)replica.tracee.set_options_if_alive(kReplicaOptions);
        ptrace::RemoteSyscalls in_replica(replica.tracee, syscall_insn);
        closed = Descriptors::leave_table(in_replica);
        if (closed && !in_replica.finish()) closed = fail("a replica died at once");
      } else {
        closed = fail("a replica died at once");
      }
    } else if (made && *made < 0) {
      closed = fail_errno(static_cast<int>(-*made), "cannot fork the program (clone)");
    } else {
      closed =
          made ? Status(fail("the replica was not seen")) : Status(tl::unexpected(made.error()));
    }
    const auto put_back = remote.finish();
    if (closed && !put_back) closed = tl::unexpected(put_back.error());
  }
  (void)parent.set_options_if_alive(kProgramOptions);
  if (!closed) {
    if (replica.tracee.tid().value != 0) kill_replica(replica);
    return tl::unexpected(closed.error());
  }
  make_humble(replica.tracee);
  return replica;
}

void kill_replica(const Replica& replica) {
  const Tid tid = replica.tracee.tid();
  ::kill(tid.value, SIGKILL);
  for (;;) {
    const ptrace::WaitOutcome outcome = ptrace::wait_for(tid);
    if (outcome.kind == ptrace::WaitOutcome::Kind::no_children) return;
    if (outcome.has_status() && outcome.status.is_dead()) return;
  }
}

Status reap(Pause& pause, GuestAddr syscall_insn, std::vector<Tid>& zombies) {
  if (zombies.empty() || pause.threads().empty()) return {};
  ptrace::RemoteSyscalls remote(pause.threads().front().tracee, syscall_insn);
  for (Tid zombie : zombies) {
    SP_ASSIGN([[maybe_unused]] const int64_t answer,
              remote.call(SYS_wait4, zombie.value, 0, __WALL | WNOHANG, 0));
  }
  zombies.clear();
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  return {};
}

}  // namespace shadowprof::shadow
