// SPDX-License-Identifier: MIT
//
// A stub of a procedure linkage table is a jump through a table, perhaps behind an endbr64: calls
// go on to where it leads.
#pragma once

#include <cstdint>

namespace shadowprof::collect {

inline constexpr uint32_t kMaxStubInsns = 2;

}  // namespace shadowprof::collect
