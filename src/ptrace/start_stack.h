// SPDX-License-Identifier: MIT
//
// What the kernel leaves on the stack of a program that it has just loaded: arguments, environment
// and the auxiliary vector, in this order, from the stack pointer up.
#pragma once

#include "base/result.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// The program, which stands at its exec event, shall start as it does each time:
//   - It does not find its vdso, and asks the kernel for the time: the vdso's own clock executes some
//     instructions more or fewer, depending on how far the second has come.
//   - The random bytes that it is given are always the same. The C library makes the stack protector's
//     and setjmp's secrets of them, which are values of many instructions.
Status fix_start(Tracee program);

}  // namespace shadowprof::ptrace
