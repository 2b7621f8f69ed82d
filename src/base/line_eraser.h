// SPDX-License-Identifier: MIT
//
// Called before each line that we say (log.h), to take away what stands in the terminal's line
// (progress.h). Null: nothing stands there.
#pragma once

#include <atomic>

namespace shadowprof {

inline std::atomic<void (*)()> line_eraser = nullptr;

}  // namespace shadowprof
