// SPDX-License-Identifier: MIT
//
// What the kernel leaves on the stack of a program that it has just loaded, from the stack pointer
// up: pointers to arguments, pointers to the environment, the auxiliary vector, and further up the
// strings.
#pragma once

#include "base/result.h"
#include "machine/cpu_model.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

enum class ToldUser { real, fixed };  // fixed: machine/machine_facts.h

// The program, which stands at its exec event, shall start as it does each time:
//
// - Its stack pointer, and the addresses of its arguments and of the environment's first string, do
//   not depend on how long the environment, the arguments and the program's path are: all of it is
//   laid out anew, below what the kernel has put there. That remains where it is, since
//   /proc/PID/cmdline and environ show it. The layout is the kernel's where the new one does not
//   fit into 128 kB, or the stack may not be that large.
// - It does not find its vdso, and asks the kernel for the time: the vdso's own clock executes some
//   instructions more or fewer, depending on how far the second has come.
// - The random bytes that it is given are always the same. The C library makes the stack
//   protector's and setjmp's secrets of them, which are values of many instructions.
// - The auxiliary vector has the entries that every kernel has had for long, in one order, and says
//   of the processor what `processor` does, and of who runs the program what `user` does.
Status fix_start(Tracee program, const machine::CpuModel& processor, ToldUser user);

// Nothing of that but AT_HWCAP and AT_HWCAP2, which are those of `processor`.
Status tell_processor(Tracee program, const machine::CpuModel& processor);

}  // namespace shadowprof::ptrace
