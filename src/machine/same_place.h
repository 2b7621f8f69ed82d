// SPDX-License-Identifier: MIT
//
// Whether a thread that was interrupted twice can have executed nothing between.
#pragma once

#include "machine/registers.h"

namespace shadowprof::machine {

inline bool same_place(const Registers& a, const Registers& b) {
  return a.rip == b.rip && a.rsp == b.rsp && a.rax == b.rax && a.rcx == b.rcx && a.rdx == b.rdx &&
         a.rsi == b.rsi && a.rdi == b.rdi && a.rbx == b.rbx && a.rbp == b.rbp;
}

}  // namespace shadowprof::machine
