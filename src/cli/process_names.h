// SPDX-License-Identifier: MIT
//
// Which process somebody means who gives its name instead of its id.
#pragma once

#include <string>

#include "base/result.h"

namespace shadowprof::cli {

// What is given is a name, and no number or list of numbers.
bool is_process_name(const std::string& word);

// The process that is called `name`: as ps shows it, or as its program's file is called. We, and
// those that we are called from, are not meant. Where there are several, the error lists them.
Result<int> process_called(const std::string& name);

}  // namespace shadowprof::cli
