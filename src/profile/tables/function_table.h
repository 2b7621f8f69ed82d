// SPDX-License-Identifier: MIT
//
// Names for code, with what the tables say about each function. Only functions that executed, or
// that called what did (context_table.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct Function {
  CodeRef at;
  uint64_t size = 0;         // bytes; the function's code is [at.offset, at.offset + size)
  std::string name;          // for people (demangled)
  std::string linkage_name;  // as the linker knows it; "" when the same
  std::string file;          // where it begins; "" when unknown
  uint32_t line = 0;         // 0 when unknown

  // Filled by attribute_functions.
  uint64_t self = 0;             // instructions in its own blocks
  uint64_t inclusive = 0;        // see call_table.h; where contexts know of more, from these
  uint64_t invocations = 0;      // entries by call, tail call, signal or thread start
  uint64_t loop_iterations = 0;  // taken branches within it to an address not above themselves
  uint64_t self_error = 0;       // of `self`: confidence.h
  uint64_t user_ns = 0;          // time_table.h
  uint64_t kernel_ns = 0;
};

using FunctionTable = std::vector<Function>;  // by place

}  // namespace shadowprof::profile
