// SPDX-License-Identifier: MIT
//
// Is there a core for a replica?
#pragma once

#include "base/types.h"

namespace shadowprof::probe {

// At this moment one of the cores that this thread may use is idle, or may be: false only where
// the kernel says that at least as many other threads want to run as there are cores. Who asks once
// may meet a moment of somebody else's.
bool may_have_idle_core(Tid program);

}  // namespace shadowprof::probe
