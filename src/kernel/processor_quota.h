// SPDX-License-Identifier: MIT
//
// Whether the control groups of a process bound its processor time (cpu.max, or cpu.cfs_quota_us of
// version 1). What its replicas use is the program's loss then, however many cores are idle.
#pragma once

#include <string>
#include <string_view>

#include "base/types.h"

namespace shadowprof::kernel {

bool has_processor_quota(Tid process);

// `groups`: what /proc/PID/cgroup says; `mount`: where the groups are, /sys/fs/cgroup.
bool has_processor_quota(std::string_view groups, const std::string& mount);

}  // namespace shadowprof::kernel
