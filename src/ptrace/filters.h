// SPDX-License-Identifier: MIT
//
// What a thread's seccomp filters mean for us. They judge each call that the thread makes, those
// for us as well, and may kill it for one, signal it, or ask another process. A thread's filters
// are its own; others of its process can put more upon it at any time (SECCOMP_FILTER_FLAG_TSYNC),
// also while it is stopped.
//
// A tracer with CAP_SYS_ADMIN, below no filter itself, has them suspended (RemoteSyscalls does that
// for each series), whatever they are and whenever they come. Without that right a thread that has
// filters makes no call for us, but for filters that it has inherited of us: what they say, they
// say to us.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// May it make calls for us though its filters are not suspended? EPERM: no.
Status permit_calls(Tid thread);

// The kernel ends some interrupted sleeps (nanosleep, poll, futex with a timeout) by a call of
// restart_syscall(2), with the registers of the call that was interrupted. Is that certain to get
// through the filters of the thread, which is stopped?
bool lets_restart(Tracee thread, const Registers& registers);

// What one filter says; nothing: it is not one that the kernel would have taken.
std::optional<uint32_t> judge(std::span<const sock_filter> filter, const seccomp_data& call);

}  // namespace shadowprof::ptrace
