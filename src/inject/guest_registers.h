// SPDX-License-Identifier: MIT
//
// The guest's registers, as far as they can be told from those of a thread that stands in the cache
// at a place that is exact (emu/code_cache.h).
#pragma once

#include "emu/code_cache.h"
#include "inject/guest_process.h"
#include "inject/guest_thread.h"

namespace shadowprof::inject {

inline bool has_trap_flag(const ptrace::Registers& regs) {
  return (regs.eflags & machine::flags::kTrap) != 0;
}

// What an indirect branch has parked.
struct BranchRegisters {
  uint64_t rcx = 0;
  uint64_t rdx = 0;
};
BranchRegisters branch_registers(const GuestThread& t, uint64_t cursor);

// The thread has left the cache by itself, behind a system call: it is in guest context from here
// on.
bool has_gone_out(GuestThread& t, const ptrace::Registers& regs);

// At a point, but for rip and for what indirect branches have parked.
ptrace::Registers guest_registers(const GuestThread& t, ptrace::Registers regs,
                                  const emu::CachePosition& at);

}  // namespace shadowprof::inject
