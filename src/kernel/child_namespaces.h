// SPDX-License-Identifier: MIT
//
// Threads whose children are born into other namespaces than their own (unshare(2), setns(2) with
// CLONE_NEWPID or CLONE_NEWTIME). The first child is the new PID namespace's first process, all of
// whom end with it, and its end waits until all others were reaped; and it is the last moment to
// set the new time namespace's clocks. A child of ours must not be among them.
#pragma once

#include "base/types.h"

namespace shadowprof::kernel {

bool has_namespaces_for_children(Tid process, Tid thread);

}  // namespace shadowprof::kernel
