// SPDX-License-Identifier: MIT
//
// Instructions by where their code was written: the function and the inlined calls within it, as
// debug information has them. Where the program's file is not at hand, the function alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct StackFrame {
  std::string name;
  std::string linkage_name;  // equal to `name` where nothing is mangled
  std::string file;          // "" when unknown
  uint32_t line = 0;         // 0 when unknown
  uint32_t function_line = 0;
  auto operator<=>(const StackFrame&) const = default;
};

struct Stack {
  profile::CodeRef at;             // one of the instructions
  std::vector<StackFrame> frames;  // outermost first, at least one
  uint64_t instructions = 0;
};

// One for each distinct chain of frames of each module, in order of module and frames. They add up
// to the instructions attributed.
std::vector<Stack> stacks(const profile::Profile& profile, const symbols::ModuleSet& modules);

// "libc.so.6", "[vdso]", "[anonymous]".
std::string module_label(const profile::Module& module);

}  // namespace shadowprof::report
