// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "base/types.h"

namespace shadowprof::kernel {

// Whether a process has a lease by this descriptor (fcntl(2), F_SETLEASE): to open the file would
// break the lease, and send its holder a signal.
bool has_lease(Tid process, int fd);
// By the text of /proc/PID/fdinfo/FD. (/proc/locks holds up all who lock files, for milliseconds.)
bool has_lease(std::string_view fdinfo);

}  // namespace shadowprof::kernel
