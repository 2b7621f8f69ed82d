// SPDX-License-Identifier: MIT
//
// A step sets the trap flag. The kernel hides that from the program but where the program looks at
// its flags by pushf, and would set them again by popf.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

// `insn`: its bytes.
bool pushes_flags(std::span<const uint8_t> insn);
// In what has just been pushed: `top` is the stack pointer.
void hide_pushed_trap_flag(ptrace::RemoteMemory& memory, GuestAddr top);

}  // namespace shadowprof::inject
