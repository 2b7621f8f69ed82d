// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace shadowprof {

// CLOCK_MONOTONIC, as the kernel stamps events.
inline uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

inline double seconds_since(std::chrono::steady_clock::time_point moment) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count();
}

}  // namespace shadowprof
