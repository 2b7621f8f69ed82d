// SPDX-License-Identifier: MIT
//
// What it means that a thread has stopped for a signal (cache/stop.h), in either context.
#pragma once

#include <csignal>

#include "cache/stop.h"
#include "inject/guest_process.h"
#include "inject/guest_thread.h"
#include "ptrace/wait.h"

namespace shadowprof::inject {

cache::Stop decode_stop(const GuestThread& t, const ptrace::Registers& regs, const siginfo_t& info);
// The same. A signal that hides a trap of ours is set aside; one that hides a fault of the
// program's own kills, as the fault does: the kernel has let it through and dropped its handler.
cache::Stop reveal_stop(GuestThread& t, const ptrace::Registers& regs, const siginfo_t& info);

// A thread in a call that was cut (ptrace/cut_call.h) has stopped so. False: the call is over. For
// any stop but its own it is.
bool is_in_cut_call(GuestThread& t, const ptrace::WaitStatus& status);

}  // namespace shadowprof::inject
