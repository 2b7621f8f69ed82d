// SPDX-License-Identifier: MIT
//
// Instructions by where their code was written: the function and the inlined calls within it, as
// debug information has them. Where the program's file is not at hand, the function alone. Where
// the profile has calling contexts, below the callers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profile/hotlists/unnamed_code.h"
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

struct Caller {
  std::optional<profile::CodeRef> at;  // nothing where it is not known
  StackFrame frame;
};

struct Stack {
  // One of the instructions, or where their function begins; nothing where no function is known.
  std::optional<profile::CodeRef> at;
  std::vector<Caller> callers;     // outermost first; none without contexts
  std::vector<StackFrame> frames;  // outermost first, at least one
  uint64_t instructions = 0;
};

// One for each distinct chain of frames of each module, in order of module and frames. They add up
// to the instructions attributed. With contexts one for each of them and of the chains within its
// function, adding up to what contexts have: how often each line of a function was executed is not
// known by caller, so a context's instructions are divided as all of the function's are. That is
// not done for contexts with next to nothing, which would only make the list long.
std::vector<Stack> stacks(const profile::Profile& profile, const symbols::ModuleSet& modules);

// `f` may be null: code at `at` without a name.
StackFrame function_frame(const profile::Profile& profile, const profile::Function* f,
                          profile::CodeRef at);

// The function at `at`, which may be null, and the calls inlined there, outermost first.
std::vector<StackFrame> frames_at(const profile::Profile& profile,
                                  const symbols::ModuleSet& modules, const profile::Function* f,
                                  profile::CodeRef at);

// One that is no code: its kind is all that is known.
Caller caller_of_kind(profile::ContextKind kind);

// Above a row of the table of contexts, outermost first.
std::vector<Caller> callers_of(const profile::Profile& profile, uint32_t context);

using profile::module_label;

}  // namespace shadowprof::report
