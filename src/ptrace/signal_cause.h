// SPDX-License-Identifier: MIT
//
// Why a signal-delivery-stop happened: did an instruction of the thread raise it, or did somebody
// send it? Sent signals may be delayed; those of an instruction may not, because the thread would
// only raise them again.
#pragma once

#include <csignal>
#include <cstdint>

#include "machine/registers.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::ptrace {

enum class SignalCause : uint8_t {
  sent,                 // by kill and the like, a timer, asynchronous I/O, the terminal, ...
  breakpoint,           // int3 has executed: rip is behind it
  single_step,          // Tracee::step is done, or the program set the trap flag itself
  hardware_breakpoint,  // a debug register matched
  fault,                // an instruction at rip failed; it has not executed
  syscall_filter,       // SIGSYS by seccomp (SECCOMP_RET_TRAP) or syscall user dispatch
};

// By the si_code (sigaction(2)) that the kernel gives, and the registers, which tell a forgery: a
// program can send itself any siginfo, but then it is inside the system call that sent it
// (orig_rax >= 0), while an exception always sets orig_rax to -1. Therefore ask before changing the
// registers.
//
// Remaining doubt: a program that forges to another of its threads cannot (kernel/signal.c,
// do_rt_tgsigqueueinfo); a signal that a tracer injected at a syscall stop looks like SI_KERNEL but
// has orig_rax >= 0 too. For a breakpoint of ours also look whether rip - 1 is one.
SignalCause cause_of(const siginfo_t& info, const machine::Registers& registers);

inline bool is_synchronous(SignalCause cause) {
  return cause != SignalCause::sent;
}

// Makes the thread that has these registers at the stop for a signal of its own instruction raise
// that once more, if it goes on without it.
void raise_again(SignalCause cause, RemoteMemory& memory, machine::Registers& registers);

}  // namespace shadowprof::ptrace
