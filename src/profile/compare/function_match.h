// SPDX-License-Identifier: MIT
//
// Which function of one profile is which of another, across rebuilds.
//
// Modules with one build-id hold the same code: there offsets say it. Other modules are the same
// program or library where their paths are, or their file names, or where both are the program that
// was run; anonymous code, where its address is. In these, functions are known by the linker's
// name; where several have the same (static functions), by their source file as well, and by their
// order. What then is left and differs only in a suffix that compilers give to clones
// ("parse.constprop.0" and "parse") is the same, too; and what has the same readable name: Rust's
// linker names end with a hash of the crate's version, features and compiler. Functions named after
// their offset ("function@0x1234") match only under one build-id.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/profile.h"

namespace shadowprof::profile {

struct FunctionMatch {
  // The same module has the same number in both; numbers are below `modules`.
  std::vector<uint32_t> base_module;
  std::vector<uint32_t> new_module;
  std::vector<bool> identical;  // by number: one build-id in both profiles
  // The same for functions, by index into the profiles' function tables.
  std::vector<uint32_t> base_function;
  std::vector<uint32_t> new_function;
  uint32_t functions = 0;
};

FunctionMatch match_functions(const Profile& base, const Profile& now);

}  // namespace shadowprof::profile
