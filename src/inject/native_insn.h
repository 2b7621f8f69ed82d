// SPDX-License-Identifier: MIT
//
// The instruction that a thread in guest context is about to execute at its own address: what needs
// more than a hardware step.
#pragma once

#include "machine/cpu_model.h"
#include "machine/registers.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

struct NativeInsn {
  bool is_syscall = false;
  bool traps_itself = false;
  bool asks_processor = false;      // cpuid
  bool asks_enabled_state = false;  // xgetbv
  bool reads_clock = false;
  bool names_core = false;  // and the core, by rdtscp
  unsigned length = 0;
  bool shows_step = false;  // the trap flag, to the program
};

NativeInsn look_at_insn(ptrace::RemoteMemory& memory, const machine::Registers& regs);

// What that processor does instead of the host's; `regs` are those behind it then. False: the
// host's is to execute it.
bool answer_for_processor(const machine::CpuModel& processor, const NativeInsn& insn,
                          machine::Registers& regs);

}  // namespace shadowprof::inject
