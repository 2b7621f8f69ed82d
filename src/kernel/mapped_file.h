// SPDX-License-Identifier: MIT
//
// Files that a process has mapped and that their names do not lead us to: deleted ones, replaced
// ones, and those of another mount namespace (a container's).
#pragma once

#include "base/types.h"
#include "base/unique_fd.h"
#include "kernel/proc.h"

namespace shadowprof::kernel {

// For reading. None: the name leads to the file, or it is no regular file, or nobody lets us have
// it: /proc/PID/map_files needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN, /proc/PID/root the right
// to trace. Nothing but regular files is opened: opening a device could have consequences.
UniqueFd open_unreachable(Tid process, const Mapping& mapping);

}  // namespace shadowprof::kernel
