// SPDX-License-Identifier: MIT
//
// What rt_sigreturn(2) finds on a thread's stack, and makes of it: the registers that a signal
// handler interrupted. Linux 6.x, arch/x86/kernel/signal_64.c (restore_sigcontext) and
// arch/x86/kernel/fpu/signal.c; the layout is ABI (asm/sigcontext.h).
#pragma once

#include <optional>

#include "ptrace/remote_memory.h"
#include "ptrace/tracee.h"

namespace shadowprof::shadow {

struct SignalReturn {
  ptrace::Registers registers;
  ptrace::ExtendedState extended;
  uint64_t signal_mask = 0;
};

// `at_call`: the thread's registers at its rt_sigreturn, `now` its extended state. Nothing: the
// frame is not as the kernel writes it for a 64-bit program with all its state in place; then the
// kernel might refuse it, too, or would set state to its first values.
std::optional<SignalReturn> read_signal_frame(ptrace::RemoteMemory& memory,
                                              const ptrace::Registers& at_call,
                                              const ptrace::ExtendedState& now);

}  // namespace shadowprof::shadow
