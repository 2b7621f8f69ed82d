// SPDX-License-Identifier: MIT
//
// What the kernel leaves on the stack of a program that it has just loaded: arguments, environment
// and the auxiliary vector, in this order, from the stack pointer up.
#pragma once

#include "base/result.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// The program, which stands at its exec event, shall not find its vdso: it then asks the kernel for
// the time. The vdso's own clock executes some instructions more or fewer, depending on how far the
// second has come.
Status hide_vdso(Tracee program);

}  // namespace shadowprof::ptrace
