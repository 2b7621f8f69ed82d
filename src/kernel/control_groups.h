// SPDX-License-Identifier: MIT
//
// What the control groups of a process grant it, of version 2 or 1. A group's bounds hold for the
// groups in it. Replicas are in the groups of their program: what they use it cannot have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace shadowprof::kernel {

// Its processor time is bounded (cpu.max, or cpu.cfs_quota_us): what its replicas use is the
// program's loss then, however many cores are idle.
bool has_processor_quota(Tid process);

// What all processes of a group together may have.
struct Bound {
  uint64_t most = 0;
  uint64_t present = 0;
  uint64_t left() const { return most > present ? most - present : 0; }
};
// Each of the group that has the least left; nothing: no group is bounded.
// Threads: pids.max, pids.current.
std::optional<Bound> thread_bound(Tid process);
// Bytes: memory.max, memory.current, but not of files that were not used of late, which the kernel
// takes away as soon as it needs the memory.
std::optional<Bound> memory_bound(Tid process);

// The same, where `groups` is what /proc/PID/cgroup says, and `mount` where the groups are
// (/sys/fs/cgroup).
bool has_processor_quota(std::string_view groups, const std::string& mount);
std::optional<Bound> thread_bound(std::string_view groups, const std::string& mount);
std::optional<Bound> memory_bound(std::string_view groups, const std::string& mount);

}  // namespace shadowprof::kernel
