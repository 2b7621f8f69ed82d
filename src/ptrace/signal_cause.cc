// SPDX-License-Identifier: MIT
#include "ptrace/signal_cause.h"

namespace shadowprof::ptrace {
namespace {

SignalCause cause_of_trap(const siginfo_t& info, bool in_syscall) {
  switch (info.si_code) {
    case SI_KERNEL:
      return in_syscall ? SignalCause::sent : SignalCause::breakpoint;
    // int1 gives TRAP_BRKPT; so does a step over a system call (user_single_step_report), and a
    // step into a signal handler has si_code SIGTRAP (signal_setup_done).
    case TRAP_BRKPT:
    case TRAP_TRACE:
      return SignalCause::single_step;
    case TRAP_HWBKPT:
      return SignalCause::hardware_breakpoint;
    default:
      return info.si_code == SIGTRAP ? SignalCause::single_step : SignalCause::sent;
  }
}

}  // namespace

SignalCause cause_of(const siginfo_t& info, const machine::Registers& registers) {
  const bool in_syscall = registers.in_syscall();
  // SI_USER, SI_QUEUE, SI_TIMER, SI_TKILL and so on.
  if (info.si_code <= 0) return SignalCause::sent;
  switch (info.si_signo) {
    case SIGTRAP:
      return cause_of_trap(info, in_syscall);
    case SIGSYS:
      return in_syscall ? SignalCause::syscall_filter : SignalCause::sent;
    // BUS_MCEERR_AO reports broken memory that nobody has touched yet.
    case SIGBUS:
      return in_syscall || info.si_code == BUS_MCEERR_AO ? SignalCause::sent : SignalCause::fault;
    // SI_KERNEL is a fault as well: general protection (a non-canonical address, a privileged
    // instruction) has no better code.
    case SIGSEGV:
    case SIGFPE:
    case SIGILL:
      return in_syscall ? SignalCause::sent : SignalCause::fault;
    default:
      return SignalCause::sent;
  }
}

void raise_again(SignalCause cause, RemoteMemory& memory, machine::Registers& registers) {
  constexpr uint8_t kInt3 = 0xcc;
  constexpr unsigned kInt3Bytes = 1, kLongInt3Bytes = 2;  // cc; cd 03
  if (cause == SignalCause::breakpoint) {
    const auto last = memory.read_value<uint8_t>(GuestAddr(registers.rip - 1));
    registers.rip -= last && *last == kInt3 ? kInt3Bytes : kLongInt3Bytes;
  } else if (cause == SignalCause::syscall_filter) {
    registers.rip -= machine::kSyscallInsnBytes;
    registers.rax = registers.orig_rax;
    registers.orig_rax = machine::kNoSyscall;
  }
}

}  // namespace shadowprof::ptrace
