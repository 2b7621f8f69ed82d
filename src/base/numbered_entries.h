// SPDX-License-Identifier: MIT
//
// What a folder of /proc has that is named by a number: processes, threads, descriptors.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shadowprof {

// Ascending. Nothing: it cannot be read, and errno says why. Of one's own descriptors the one that
// reads the folder is not among them.
std::optional<std::vector<int>> numbered_entries(const std::string& folder);

}  // namespace shadowprof
