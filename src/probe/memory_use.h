// SPDX-License-Identifier: MIT
//
// Memory that is taken because a program is sampled (--max-memory).
//
// What a replica shares with the program costs nothing; what either of them writes has to be there
// twice. Exact would be Private_* of /proc/PID/smaps_rollup, for which the kernel walks all page
// tables; page faults since the fork bound it from above, at no cost.
#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"

namespace shadowprof::probe {

// Resident in our own process: code cache and trace buffers included, which replicas share.
uint64_t own_memory();
// What a fork of the process would copy at once.
uint64_t page_tables_of(Tid process);
// Resident, and of no file.
uint64_t anonymous_memory_of(Tid process);
// What `faults` page faults may have taken.
uint64_t memory_of_faults(uint64_t faults);
// Page faults of a process since it was made.
uint64_t faults_of(Tid process);
// Pages of all processes up to now whose faults copied nothing (fault_account.h), if the kernel
// counts them.
std::optional<uint64_t> reused_pages();
// The machine's, or that of the program's control group, in which its replicas are. A replica takes
// what the program writes meanwhile a second time.
bool memory_is_short(Tid program);
// A fork of it would leave at least as much again for others. Where the kernel promises no more
// memory than it has (vm.overcommit_memory=2), all that a replica could write to is promised to it,
// and what the program allocates meanwhile could be refused because of us.
bool may_be_promised_twice(Tid process);
// A replica takes one of the threads that the program's control groups may have (pids.max), and its
// user (RLIMIT_NPROC). Some must be left, or the program could not start one because of us.
bool may_have_another_thread(Tid process);

}  // namespace shadowprof::probe
