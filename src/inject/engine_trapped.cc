// SPDX-License-Identifier: MIT
//
// Threads that have set their trap flag. The processor traps behind each of their instructions, and
// the program handles that: so they execute the program's own instructions, in guest context, until
// the flag is clear. Nothing of what they execute is recorded. They come to us with every trap, so
// we see their system calls beforehand.
//
//   popf     asks us first if it is about to set the flag (emu/translate/trap_flag.h)
//   sigreturn, iret and what else restores flags is executed in guest context anyway
#include <sys/syscall.h>

#include "inject/call_kinds.h"
#include "inject/engine.h"
#include "inject/guest_registers.h"
#include "inject/mapping_calls.h"
#include "inject/signal_storm.h"

namespace shadowprof::inject {

// `regs` are the guest's.
void Engine::run_trapped(GuestThread& t, Registers& regs) {
  records_.traces.gap(t, trace::GapReason::native);
  if (options_.bursts != nullptr) return let_out(t, regs);
  if (!t.tracee.set_registers_if_alive(regs)) return;
  if (!t.deferred.empty()) {
    if (t.holding) end_hold(t);
    return redeliver_deferred(t);
  }
  if (!regs.restart_pending() && look_at_insn(t.process->space->code().memory(), regs).is_syscall)
    return make_trapped_call(t, regs);
  t.trapped = true;
  resume(t);
}

// What a child begins with is where it would be for a parent in the gateway.
void Engine::make_trapped_call(GuestThread& t, Registers& regs) {
  const long nr = static_cast<int>(regs.rax);
  regs.orig_rax = machine::kNoSyscall;
  emu::StatePage& state = t.slot->state();
  state.next_pc = regs.rip + machine::kSyscallInsnBytes;
  state.guest_r15 = regs.r15;
  switch (nr) {
    case SYS_execve:
    case SYS_execveat:
      t.executing = true;
      break;
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_clone3:
      break;
    default: {
      const bool watched = call_kind(static_cast<unsigned>(regs.rax & 0xffff)) !=
                           emu::SyscallKind::execute;
      const bool is_answered = machine_ && machine_->concerns(t, regs);
      if (is_answered || (watched && !is_open_call(nr))) return make_watched_call(t, regs);
      if (watched) before_open(t, regs);
      break;
    }
  }
  t.trapped = true;
  resume(t);
}

}  // namespace shadowprof::inject
