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
#include <vector>

#include "profile/module_table.h"

namespace shadowprof::profile {

struct CallPair {
  CodeRef site;    // the call instruction
  CodeRef callee;  // first instruction of the called code
  bool indirect = false;
  uint64_t count = 0;
  uint64_t inclusive = 0;
  uint64_t error = 0;  // of the count: confidence.h
};

// Code that was entered by a call, a tail call, as a signal handler or as a thread's first.
struct Entry {
  CodeRef at;
  uint64_t invocations = 0;
  uint64_t inclusive = 0;
};

using CallTable = std::vector<CallPair>;  // by site, callee; unique
using EntryTable = std::vector<Entry>;    // by place; unique

}  // namespace shadowprof::profile
