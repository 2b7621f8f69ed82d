// SPDX-License-Identifier: MIT
//
// Where baselines are kept: NAME.json.zst in one folder, so that `check` takes the folder, too.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace shadowprof::cli {

inline constexpr const char* kBaselineFolder = ".shadowprof/baselines";

// Letters, digits, '.', '_' and '-', and no '.' in front: the name is part of a file's.
Status check_baseline_name(const std::string& name);
std::string baseline_file(const std::string& folder, const std::string& name);
// The names of those that are there, in order. A folder that is not there has none.
Result<std::vector<std::string>> baseline_names(const std::string& folder);

}  // namespace shadowprof::cli
