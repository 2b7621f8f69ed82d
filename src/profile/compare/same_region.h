// SPDX-License-Identifier: MIT
//
// Only profiles of the same part of a program say what changed in it.
#pragma once

#include <string>

#include "base/result.h"
#include "profile/profile.h"

namespace shadowprof::profile {

// "all of the program", "what is within 'parse'".
std::string described_region(const Run& run);

// An Error says of which part each of the files is.
Status check_same_region(const Run& a, const std::string& a_file, const Run& b,
                         const std::string& b_file);

}  // namespace shadowprof::profile
