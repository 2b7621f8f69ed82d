// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace shadowprof {

inline double seconds_since(std::chrono::steady_clock::time_point moment) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count();
}

}  // namespace shadowprof
