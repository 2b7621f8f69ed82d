// SPDX-License-Identifier: MIT
//
// What it means that a thread has stopped for a signal (cache/stop.h), in either context.
#pragma once

#include <csignal>

#include "cache/stop.h"
#include "inject/guest_process.h"
#include "inject/guest_thread.h"

namespace shadowprof::inject {

cache::Stop decode_stop(const GuestThread& t, const ptrace::Registers& regs, const siginfo_t& info);
// The same. A signal that hides a trap of ours is set aside; one that hides a fault of the
// program's own kills, as the fault does: the kernel has let it through and dropped its handler.
cache::Stop reveal_stop(GuestThread& t, const ptrace::Registers& regs, const siginfo_t& info);

}  // namespace shadowprof::inject
