// SPDX-License-Identifier: MIT
//
// Instructions by groups of samples and places. Not in the file: attribute_functions makes the
// errors of functions of it, once these are known.
#pragma once

#include <vector>

#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct GroupedCode {
  CodeRef at;  // the beginning of a block
  uint64_t instructions = 0;
};

struct SampleGroup {
  std::vector<GroupedCode> code;
  uint64_t instructions = 0;  // in all
  double by_time = 1;         // of confidence.h
};

using SampleGroups = std::vector<SampleGroup>;

}  // namespace shadowprof::profile
