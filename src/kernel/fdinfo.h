// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace shadowprof::kernel {

// The text of /proc/PID/fdinfo/FD, as far as so many bytes go: locks and what is watched come last,
// and may be many. Empty: there is no such descriptor, or it is not ours to see.
std::string read_fdinfo(Tid process, int fd, size_t most_bytes = SIZE_MAX);

}  // namespace shadowprof::kernel
