// SPDX-License-Identifier: MIT
//
// The processor's debug registers in a traced thread (ptrace(2), PTRACE_POKEUSER): its code and
// data stay as they are. No breakpoint is in force in a thread that was just made, but it shows
// its maker's control register (arch/x86/kernel/process.c, copy_thread); an exec leaves none.
#pragma once

#include <span>

#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

struct HardwareBreakpoint {
  // Both are reported as SIGTRAP with TRAP_HWBKPT (SignalCause::hardware_breakpoint), by force_sig.
  // A trap of a single step in the same moment hides a write. The kernel's own writes are not
  // reported.
  enum class When : uint8_t {
    executed,  // before the instruction; eflags.RF is set then
    written,   // behind the instruction that writes any of the eight bytes, which are aligned
  };
  GuestAddr at;
  When when = When::executed;
};
inline constexpr size_t kMostHardwareBreakpoints = 4;

// Do they trap? Some hypervisors take their registers and never report anything. Found out once, by
// a process that shares our memory and is traced for a moment.
bool hardware_breakpoints_trap();

// These and no others. The thread is stopped. An Error: it has none now, and errno_value is ESRCH
// if the thread is gone; else the kernel or the machine has no such registers, or none for this
// address.
Status set_hardware_breakpoints(Tracee thread, std::span<const HardwareBreakpoint> wanted);

// Another tracer finds them as if nobody had used them, nor stepped the thread, which is stopped.
void leave_no_debug_registers(Tracee thread);

}  // namespace shadowprof::ptrace
