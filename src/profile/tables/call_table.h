// SPDX-License-Identifier: MIT
//
// Calls, followed with a shadow stack per thread. `inclusive` is the number of instructions that
// ran between entry and return, callees and signal handlers included, counted only for the
// outermost of nested activations of the same callee: it never exceeds what the program executed.
// A jump from a procedure linkage stub, or to an address that is also called, ends the activation
// and begins one of the target (a tail call). So for each callee
//   sum over its call pairs = its entry's figure - what reached it by other means.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct CallPair {
  CodeRef site;    // the call instruction
  CodeRef callee;  // first instruction of the called code
  bool indirect = false;
  uint64_t count = 0;
  uint64_t inclusive = 0;
  uint64_t error = 0;  // of the count: confidence.h
  auto key() const { return std::tuple(site, callee, indirect); }
};

// Code that was entered by a call, a tail call, as a signal handler or as a thread's first.
struct Entry {
  CodeRef at;
  uint64_t invocations = 0;
  uint64_t inclusive = 0;
  const CodeRef& key() const { return at; }
};

using CallTable = std::vector<CallPair>;  // by site, callee; unique
using EntryTable = std::vector<Entry>;    // by place; unique

inline constexpr Columns kCallColumns{
    code_place<&CallPair::site>("from_module", "from_offset"),
    code_place<&CallPair::callee>("to_module", "to_offset"),
    column<&CallPair::indirect>("indirect"),
    column<&CallPair::count>("count").sum(),
    column<&CallPair::inclusive>("inclusive").sum(),
    column<&CallPair::error>("error").error().with_errors(),
};
inline constexpr TableLayout<CallPair> kCallLayout{
    .name = "calls", .title = "calls", .columns = kCallColumns, .written = Written::always};

inline constexpr Columns kEntryColumns{
    code_place<&Entry::at>("module", "offset"),
    column<&Entry::invocations>("invocations").sum(),
    column<&Entry::inclusive>("inclusive").sum(),
};
inline constexpr TableLayout<Entry> kEntryLayout{
    .name = "entries", .title = "entries", .columns = kEntryColumns, .written = Written::always};

}  // namespace shadowprof::profile
