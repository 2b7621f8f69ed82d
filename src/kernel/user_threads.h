// SPDX-License-Identifier: MIT
//
// How many threads the user of a process may have, in all of his processes (RLIMIT_NPROC). Replicas
// are his, too: what they take of it the program cannot have.
#pragma once

#include "kernel/control_groups.h"

namespace shadowprof::kernel {

// Nothing: he has no bound, as the superuser. Where the whole machine has fewer threads, `present`
// is those: to count one user's takes longer the more processes there are. Processes that we cannot
// see (of other containers, or because of hidepid) are not counted.
std::optional<Bound> user_thread_bound(Tid process);

// Counts those with this real user, where `processes` is /proc.
uint64_t threads_of_user(uint32_t user, const std::string& processes);

}  // namespace shadowprof::kernel
