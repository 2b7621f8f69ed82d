// SPDX-License-Identifier: MIT
//
// Functions of stripped code that no table tells of: where something is called a function begins,
// and goes on to where the next one does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profile/profile.h"

namespace shadowprof::profile {

// All of one module: `blocks` and `known` in the order of their places, `callees` in any. The
// functions are those that none of `known` covers, and are called "function@0x1234".
FunctionTable functions_by_calls(std::span<const BlockCount> blocks, std::vector<uint64_t> callees,
                                 const FunctionTable& known);

}  // namespace shadowprof::profile
