// SPDX-License-Identifier: MIT
//
// The guest's own address in place of one in the code cache, where the x87 unit's instruction
// pointer has been stored (emu/translate/x87_pointer.h).
#pragma once

#include "emu/code_cache.h"
#include "machine/registers.h"
#include "ptrace/remote_memory.h"
#include "ptrace/tracee.h"

namespace shadowprof::inject {

// A thread is at a Point with kPointerStored. `guest` are its registers, but for the program
// counter, `state` is its state page. The answer is the guest's address behind the instruction that
// has stored it.
GuestAddr mend_stored_pointer(const emu::CodeCache& cache, const emu::CachePosition& at,
                              const machine::Registers& guest, const emu::StatePage& state,
                              ptrace::RemoteMemory& memory);

// In memory in the format of fxsave64, as the kernel puts it into signal frames.
void mend_saved_area(const emu::CodeCache& cache, GuestAddr area, ptrace::RemoteMemory& memory);

// In the unit itself. The thread is stopped, and goes on outside the cache.
void mend_unit(const emu::CodeCache& cache, ptrace::Tracee thread);

}  // namespace shadowprof::inject
