// SPDX-License-Identifier: MIT
#pragma once

#include "emu/translate/slot_layout.h"

namespace shadowprof::inject {

// What the gateway does with a system call of a program that runs in the code cache (cache::Slot).
emu::SyscallKind call_kind(unsigned number);

}  // namespace shadowprof::inject
