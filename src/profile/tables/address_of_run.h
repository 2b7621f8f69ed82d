// SPDX-License-Identifier: MIT
//
// Which values are addresses.
#pragma once

#include <algorithm>
#include <cstdint>

#include "profile/tables/module_table.h"

namespace shadowprof::profile {

// Where the kernel maps programs, libraries, heaps and stacks.
inline constexpr uint64_t kLeastMapped = uint64_t{1} << 40;
inline constexpr uint64_t kMostMapped = (uint64_t{1} << 47) - 1;

// There, or in the image of a program that is not mapped at random: another place in each run.
inline bool is_address_of_run(const ModuleTable& modules, uint64_t value) {
  if (value >= kLeastMapped && value <= kMostMapped) return true;
  constexpr uint64_t kImageBytes = 16 << 20;
  return std::ranges::any_of(modules, [&](const Module& m) {
    return m.address != 0 && value >= m.address && value - m.address < kImageBytes;
  });
}

}  // namespace shadowprof::profile
