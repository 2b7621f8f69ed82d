// SPDX-License-Identifier: MIT
//
// Instructions by code, hashed into cells: enough to see whether samples resemble one another.
#pragma once

#include <array>
#include <cstdint>

namespace shadowprof::shadow {

using CodeShares = std::array<uint64_t, 64>;

}  // namespace shadowprof::shadow
