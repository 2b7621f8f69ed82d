// SPDX-License-Identifier: MIT
//
// clone(2) and clone3(2) of a thread inside a replica: a guest thread more, no kernel thread.
#pragma once

#include <memory>
#include <optional>

#include "ptrace/remote_memory.h"
#include "shadow/replica_thread.h"

namespace shadowprof::shadow {

// `parent` is at its system call, its registers and extended state in their place; `count`: threads
// that there are. What the call stores to memory is stored. Nothing: it asks for something else
// than a thread, or for one too many.
std::optional<std::unique_ptr<GuestThread>> make_thread(const GuestThread& parent,
                                                        ptrace::RemoteMemory& memory, size_t count);

}  // namespace shadowprof::shadow
