// SPDX-License-Identifier: MIT
//
// System calls that the gateway hands to us (call_kinds.cc lists them): made by the thread at the
// guest's own address, and their effects on translation and on what we track.
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>

#include "base/log.h"
#include "inject/call_kinds.h"
#include "inject/engine.h"
#include "inject/guest_signals.h"
#include "inject/mapping_calls.h"
#include "inject/sequence_watch.h"
#include "inject/signal_storm.h"
#include "kernel/proc.h"

namespace shadowprof::inject {

using cache::kTraceAttach;
using cache::kTraceMe;
using cache::kTraceSeize;

namespace {

constexpr int kArchSetGs = 0x1001;
constexpr int kArchShadowStackEnable = 0x5001;
constexpr int kArchSetCpuid = 0x1012;  // whether cpuid faults
constexpr int kPrSetSyscallUserDispatch = 59;

// What the kernel takes of the register where it declares the argument as an int.
int int_of(uint64_t argument) {
  return static_cast<int>(argument);
}

long number_of(const ptrace::Registers& regs) {
  return static_cast<int>(regs.rax);
}

// The flags of a clone or clone3 that is about to be made.
uint64_t clone_flags_of(const ptrace::Registers& regs, ptrace::RemoteMemory& memory) {
  if (number_of(regs) == SYS_clone) return regs.rdi;
  return memory.read_value<uint64_t>(GuestAddr(regs.rdi)).value_or(0);
}

// In bursts, who makes a process, executes a program, or registers restartable sequences does so
// natively, and what it makes is native from its birth: see bursts.h. `regs` are the guest's before
// a system call.
bool ends_visit(const ptrace::Registers& regs, ptrace::RemoteMemory& memory) {
  uint64_t clone_flags = 0;
  switch (number_of(regs)) {
    case SYS_fork:
    case SYS_vfork:
    case SYS_execve:
    case SYS_execveat:
    case SYS_rseq:
      return true;
    case SYS_clone:
    case SYS_clone3:
      clone_flags = clone_flags_of(regs, memory);
      break;
    default:
      return false;
  }
  return !(clone_flags & CLONE_THREAD) || (clone_flags & CLONE_VFORK);
}

}  // namespace

// `regs`: of the engine, behind the gateway's trap.
void Engine::on_tracer_syscall(GuestThread& t, Registers& regs) {
  records_.counts.tracer_syscalls++;
  if (takes_turns()) time_->turns().settle_takers();
  if (time_ && time_->begin_wait(t, regs)) {
    regs.rip = t.process->space->cache().syscall_address();
    if (t.tracee.set_registers_if_alive(regs)) go_on(t);
    return;
  }
  const auto kind = call_kind(static_cast<unsigned>(regs.rax & 0xffff));
  const bool is_answered = machine_ && machine_->concerns(t, regs);
  if (!is_answered && (leave_to_gateway(t, regs) || kind == emu::SyscallKind::execute)) {
    regs.rip = t.process->space->cache().syscall_address();
    if (time_) time_->note_call(t, regs);
    if (!t.tracee.set_registers_if_alive(regs)) return;
    return t.holding ? make_held_call(t, regs) : go_on(t);
  }
  regs.rip--;
  take_guest_state(t, regs, {.kind = emu::CachePosition::Kind::syscall_trap});
  regs.orig_rax = machine::kNoSyscall;
  if (options_.bursts != nullptr && ends_visit(regs, t.process->space->code().memory()))
    return let_out(t, regs);
  make_watched_call(t, regs);
}

// In guest context, where the guest has it.
void Engine::make_watched_call(GuestThread& t, Registers& regs) {
  const auto answer = machine_ ? machine_->answer(t, regs) : std::nullopt;
  if (answer) return return_from_call(t, regs, *answer);
  if (answer_without_kernel(t, regs)) return;

  const Registers before = regs;
  std::optional<ptrace::RemoteSigaction> new_action;
  const int signal = int_of(regs.rdi);
  const bool sets_action = number_of(regs) == SYS_rt_sigaction && regs.rsi != 0 &&
                           std::ranges::count(cache::kOwnSignals, signal) != 0;
  if (sets_action) {
    auto read =
        t.process->space->code().memory().read_value<ptrace::RemoteSigaction>(GuestAddr(regs.rsi));
    if (read) new_action = *read;
  }
  if (!run_native_syscall(t, regs)) return;
  if (new_action && regs.rax == 0) t.process->actions[static_cast<size_t>(signal)] = *new_action;
  after_native_syscall(t, before, regs);
  const bool in_storm = number_of(before) == SYS_rt_sigreturn && t.storm.is_storm();
  in_storm ? enter_for_a_moment(t, regs) : enter(t, regs);
}

// Calls that must only be known before they are made. They may block, and need us meanwhile: an
// execve waits for the process's other threads to end, the open of a FIFO for another one.
bool Engine::leave_to_gateway(GuestThread& t, Registers& regs) {
  switch (number_of(regs)) {
    case SYS_fork:
    case SYS_vfork:
      return options_.bursts == nullptr;
    case SYS_clone:
    case SYS_clone3:
      return options_.bursts == nullptr && !makes_untraced(t, regs);
    case SYS_execve:
    case SYS_execveat:
      if (options_.bursts != nullptr) return false;
      t.cursor = regs.r15;
      t.executing = true;
      return true;
    case SYS_ptrace:
      // To attach waits for a process that executes a program.
      return regs.rdi != kTraceMe && !make_room_for_tracer(t, regs);
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_mremap:
      return is_about_data(*t.process->space, regs);
    default:
      if (!is_open_call(number_of(regs))) return false;
      before_open(t, regs);
      return true;
  }
}

// A child that is not to be traced never stops for us. Made in guest context, at the guest's own
// address, it runs natively from its birth.
bool Engine::makes_untraced(GuestThread& t, const Registers& regs) {
  const uint64_t flags = clone_flags_of(regs, t.process->space->code().memory());
  if (!(flags & CLONE_UNTRACED)) return false;
  if (!options_.follow && !(flags & CLONE_THREAD)) return true;  // like other processes
  spaces_.note_leaving(
      *t.process,
      "made a child that is not to be traced (CLONE_UNTRACED), which ran outside the engine");
  return true;
}

void Engine::before_open(GuestThread& t, const Registers& regs) {
  if (!opens_memory(regs, t.tracee.tid(), t.process->space->code().memory())) return;
  for (const auto& [pid, process] : guests_.processes) {
    if (process->space) process->space->everything_may_change();
  }
}

// The thread that `t` knows by that number, which is another one than ours where `t` is in a PID
// namespace.
Tid Engine::known_to(const GuestThread& t, int32_t id) const {
  const auto calls_itself = [](Tid tid, int32_t number) {
    const auto status = kernel::read_status(tid);
    return status && status->innermost_pid.value == number;
  };
  if (calls_itself(t.tracee.tid(), t.tracee.tid().value)) return Tid(id);
  for (const auto& [tid, thread] : guests_.threads)
    if (calls_itself(tid, id)) return tid;
  for (const auto& [tid, child] : children_.announced())
    if (calls_itself(tid, id)) return tid;
  for (const Tid tid : children_.early())
    if (calls_itself(tid, id)) return tid;
  return Tid(id);
}

// A process has one tracer at most; the program's own comes first. True: `t` itself has left.
bool Engine::make_room_for_tracer(GuestThread& t, const Registers& regs) {
  constexpr const char* kReason = "it is traced by another process of the program";
  if (regs.rdi == kTraceMe && !t.process->is_root) {
    note_unsupported(t, regs, kReason);
    return true;
  }
  if (regs.rdi == kTraceAttach || regs.rdi == kTraceSeize) {
    const Tid wanted = known_to(t, int_of(regs.rsi));
    start_announced(wanted);
    const auto it = guests_.threads.find(wanted);
    if (it != guests_.threads.end() && it->second->process != t.process) {
      go_native(*it->second->process, kReason);
    }
  }
  return false;
}

// The call is about memory where ours is. Natively there would be nothing, so ours goes elsewhere.
// True: `t` has left the engine.
bool Engine::make_room_for_mapping(GuestThread& t, const Registers& regs) {
  const Tid tid = t.tracee.tid();  // `t` may be gone when it could not be moved
  if (move_space(t, regs, wanted_by(regs)) && !changes_ours(*t.process->space, regs)) return false;
  if (!guests_.threads.contains(tid)) return true;
  constexpr const char* kReason = "it changes memory that the engine has mapped";
  for (auto& [pid, other] : guests_.processes) {
    const bool shares =
        other.get() != t.process && other->space && other->space == t.process->space;
    if (shares && !other->native) go_native(*other, kReason);
  }
  note_unsupported(t, regs, kReason);
  return true;
}

// As if the kernel had answered the call at regs.rip.
void Engine::return_from_call(GuestThread& t, Registers& regs, int64_t result) {
  regs.rax = static_cast<uint64_t>(result);
  regs.rip += machine::kSyscallInsnBytes;
  regs.rcx = regs.rip;
  regs.r11 = regs.eflags;
  enter(t, regs);
}

// Calls that are refused, or that the engine cannot live with.
bool Engine::answer_without_kernel(GuestThread& t, Registers& regs) {
  const auto answer = [&](int error) {
    return_from_call(t, regs, -int64_t{error});
    return true;
  };
  switch (number_of(regs)) {
    case SYS_rseq:
      return !can_watch_sequences(t, regs) && answer(ENOSYS);
    case SYS_arch_prctl:
      if (int_of(regs.rdi) == kArchShadowStackEnable) return answer(EOPNOTSUPP);
      if (int_of(regs.rdi) == kArchSetCpuid && options_.processor) return answer(ENODEV);
      if (int_of(regs.rdi) == kArchSetGs && regs.rsi != 0 && tracing()) {
        note_unsupported(t, regs, "it sets the gs base");
        return true;
      }
      return false;
    case SYS_prctl:
      if (int_of(regs.rdi) == kPrSetSyscallUserDispatch && regs.rsi != 0) {
        note_unsupported(t, regs, "it uses system call user dispatch");
        return true;
      }
      return false;
    case SYS_ptrace:
      return make_room_for_tracer(t, regs);
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_remap_file_pages:
    case SYS_mremap:
    case SYS_mmap:
    case SYS_shmat:
      return changes_ours(*t.process->space, regs) && make_room_for_mapping(t, regs);
    default:
      return false;
  }
}

// Makes the system call at regs.rip in guest context; `regs` are those after it. False: the thread
// does something else now (a signal came first, or it died).
bool Engine::run_native_syscall(GuestThread& t, Registers& regs) {
  if (!t.tracee.set_registers_if_alive(regs)) return false;
  bool saw_trap = false;
  for (int syscall_stops = 0; syscall_stops < 2;) {
    if (!t.tracee.syscall_if_alive()) return false;
    const auto stop = stops_.wait_for_stop(t.tracee.tid());
    if (!stop || !t.tracee.get_registers_if_alive(regs)) return false;
    if (stop->kind() == ptrace::WaitStatus::Kind::syscall_stop) {
      syscall_stops++;
      if (t.holding) end_hold(t);
      continue;
    }
    siginfo_t info;
    if (stop->kind() == ptrace::WaitStatus::Kind::signal_stop) {
      if (!t.tracee.get_siginfo_if_alive(info)) return false;
      if (syscall_stops == 0) {
        // Before the call: the handler runs first, as it would natively.
        deliver(t, regs, info);
        return false;
      }
      t.deferred.push_back(info);
    }
    saw_trap = saw_trap || stop->is_trap();
  }
  // A group stop that was run through is reported again this way.
  return !saw_trap || t.tracee.interrupt_if_alive();
}

void Engine::after_native_syscall(GuestThread& t, const Registers& before, const Registers& after) {
  cache::AddressSpace& space = *t.process->space;
  const auto result = static_cast<int64_t>(after.rax);
  const bool failed = result < 0 && result > -4096;
  if (machine_ && !failed) machine_->mend(t, before);
  switch (number_of(before)) {
    case SYS_rt_sigreturn:
      records_.traces.gap(t, trace::GapReason::signal_returned);
      note_mask(t);
      t.returned_to = after;
      break;
    case SYS_rseq:
      if (!failed) after_rseq(t, before);
      break;
    case SYS_rt_sigprocmask:
      note_mask(t);
      break;
    default:
      note_mapping_call(space, before, after);
      break;
  }
}

}  // namespace shadowprof::inject
