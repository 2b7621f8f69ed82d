// SPDX-License-Identifier: MIT
//
// The namespaces that a process is in, as /proc names them.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/types.h"

namespace shadowprof::kernel {

// Processes that know one another by the same numbers have the same. Nothing: it is gone, or the
// kernel has none.
std::optional<ino_t> pid_namespace_of(Tid process);

// Threads whose children are born into other namespaces than their own (unshare(2), setns(2) with
// CLONE_NEWPID or CLONE_NEWTIME). The first child is the new PID namespace's first process, all of
// whom end with it, and its end waits until all others were reaped; and it is the last moment to
// set the new time namespace's clocks. A child of ours must not be among them.
bool has_namespaces_for_children(Tid process, Tid thread);

}  // namespace shadowprof::kernel
