// SPDX-License-Identifier: MIT
//
// What a system call means where threads take turns (turn_order.h).
#pragma once

#include "base/types.h"
#include "machine/registers.h"

namespace shadowprof::inject {

// It never waits for another thread, and none waits for it: nobody need know of it.
bool is_quiet_call(unsigned number);
// May the call, which is about to be made with these registers, wait for another thread?
bool may_wait(const machine::Registers& regs, Tid thread);

}  // namespace shadowprof::inject
