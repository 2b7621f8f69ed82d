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

// Its processor time is bounded (cpu.max, or cpu.cfs_quota_us): what its replicas use is the program's
// loss then, however many cores are idle.
bool has_processor_quota(Tid process);

// Threads of all processes in a group.
struct ThreadBound {
  uint64_t most = 0;     // pids.max
  uint64_t present = 0;  // pids.current
  uint64_t left() const { return most > present ? most - present : 0; }
};
// Of the group that has the fewest left; nothing: no group is bounded.
std::optional<ThreadBound> thread_bound(Tid process);

// The same, where `groups` is what /proc/PID/cgroup says, and `mount` where the groups are
// (/sys/fs/cgroup).
bool has_processor_quota(std::string_view groups, const std::string& mount);
std::optional<ThreadBound> thread_bound(std::string_view groups, const std::string& mount);

}  // namespace shadowprof::kernel
