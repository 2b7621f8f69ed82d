// SPDX-License-Identifier: MIT
//
// The ranges that readv(2) and its relatives take.
#pragma once

#include <sys/uio.h>

#include <optional>
#include <vector>

#include "ptrace/remote_memory.h"

namespace shadowprof::shadow {

// Nothing: there are more than the kernel takes, or they cannot be read.
std::optional<std::vector<iovec>> read_io_vectors(ptrace::RemoteMemory& memory, GuestAddr at,
                                                  uint64_t count);

}  // namespace shadowprof::shadow
