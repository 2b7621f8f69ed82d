// SPDX-License-Identifier: MIT
//
// Values of instructions, as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "profile/hotlists/hotlists.h"

namespace shadowprof::report {

// For a difference, with its sign.
std::string hot_value_text(const profile::HotValue& of, uint64_t value);
// What of the instruction a row is about, where it is not all of the integer that it names: "" or
// " (difference)".
std::string part_text(const profile::HotValue& v);

}  // namespace shadowprof::report
