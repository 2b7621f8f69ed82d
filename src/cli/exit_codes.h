// SPDX-License-Identifier: MIT
#pragma once

namespace shadowprof::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitRegression = 3;    // check found one
inline constexpr int kExitOwnFailure = 125;  // ours, not the program's
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

}  // namespace shadowprof::cli
