// SPDX-License-Identifier: MIT
//
// Whose turn it is among the guest threads of a replica, whichever engine runs them.
#pragma once

#include <optional>

#include "shadow/replica_thread.h"
#include "shadow/replica.h"

namespace shadowprof::shadow {

// The threads that the program had; what the replica holds of their vector state moves to them.
GuestThreads make_threads(Replica& replica);

// The next one after `current` that can run, perhaps `current` itself. When none can, one of those
// whose wait has a timeout: its time is up, as nobody else will move before that. Nothing: all
// wait.
std::optional<size_t> next_to_run(GuestThreads& threads, size_t current);

}  // namespace shadowprof::shadow
