// SPDX-License-Identifier: MIT
//
// Functions that the compiler inlined: it put their code in the place of their calls, so no call
// leads to them and no symbol has their name. Debug information tells for each address the chain of
// inlined calls that it is part of (symbols/source_lines.h).
//
// A row sums over all places where one function was inlined in one module, and over all runs of a
// merged profile. Two rows are the same function where module, name, and file and line of the
// declaration are. What rows say:
//
//   self       instructions whose innermost inlined call is one of it. Of a block that several
//              calls share each gets its own instructions, as often as these executed: exact where
//              the block's count is.
//   inclusive  those and what was inlined into it, each instruction once, and what the functions
//              executed that it calls (call_table.h). Of one function that it was inlined into
//              never more than that has. Where a callee comes back to it, what runs below counts
//              again.
//   self_error as that of functions (confidence.h): how the share differs from group to group.
//   user_ns, kernel_ns  ticks at its own instructions (time_table.h).
//
// Nothing moves from one row to another: the function whose symbol covers the code has all of these
// instructions, too (function_table.h), as every profiler by symbols says. So rows of this table
// are parts of rows of that one, and are never added to them. Both have a row of a function that
// was inlined in some places and called in others; neither row is part of the other.
//
// A function that has neither instructions nor time of its own, and less than 1/10,000 of all with
// what was inlined into it, has no row: C++ has thousands of these. The sums of `self` are
// complete.
//
// What is known of inlining depends on debug information. Module::inlining_known counts the
// instructions of code that has it: of the others nobody knows what was inlined there.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "profile/tables/module_table.h"

namespace shadowprof::profile {

// A call that was replaced, and executed. The same line may be in several functions.
struct InlinedPlace {
  uint64_t function = 0;  // where the function begins that it is in; 0: code without a name
  std::string file;       // of the call; "" when unknown
  uint32_t line = 0;
  uint64_t self = 0;
  auto key() const { return std::tie(function, file, line); }
};

struct InlinedFunction {
  uint32_t module = 0;
  std::string name;          // for people (demangled)
  std::string linkage_name;  // as the linker would know it; "" when the same
  std::string file;          // of the declaration; "" when unknown
  uint32_t line = 0;         // 0 when unknown
  uint64_t self = 0;
  uint64_t self_error = 0;
  uint64_t inclusive = 0;
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  std::vector<InlinedPlace> places;  // by function, file, line; unique
  auto key() const { return std::tie(module, name, file, line); }
};

using InlinedTable = std::vector<InlinedFunction>;  // by module, name, file, line; unique

// Sorts the rows and adds up those of one function, and their places.
void normalise_inlined(InlinedTable& rows);

}  // namespace shadowprof::profile
