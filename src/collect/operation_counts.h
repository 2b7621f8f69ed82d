// SPDX-License-Identifier: MIT
//
// How many instructions, branches, calls, loads and stores a program executed, by what its code is
// and how often the engine counted each run of it. Exact: code that generated or changed itself is
// counted by the bytes that were executed.
//
// A branch is an instruction that may go elsewhere: jumps, calls and returns, conditional or not; a
// system call is none. A load is an instruction's reading from memory, a store its writing: push
// and call store, pop and ret load, an addition to memory does both. One that repeats (rep), or
// accesses memory under a condition or a mask, counts once. Prefetches and computed addresses (lea)
// do not.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "trace/block_table.h"

namespace shadowprof::collect {

struct OperationCounts {
  uint64_t instructions = 0;
  uint64_t branches = 0;
  uint64_t branches_taken = 0;
  uint64_t calls = 0;  // of `branches`
  uint64_t loads = 0;
  uint64_t stores = 0;
};

struct NamedOperation {
  const char* name;
  uint64_t OperationCounts::*member;
};
inline constexpr std::array kOperations{
    NamedOperation{"instructions", &OperationCounts::instructions},
    NamedOperation{"branches", &OperationCounts::branches},
    NamedOperation{"branches-taken", &OperationCounts::branches_taken},
    NamedOperation{"calls", &OperationCounts::calls},
    NamedOperation{"loads", &OperationCounts::loads},
    NamedOperation{"stores", &OperationCounts::stores},
};

// `executions` is indexed by run id. The table has the code of all blocks that executed.
OperationCounts count_operations(const trace::BlockTable& table,
                                 std::span<const uint64_t> executions);

}  // namespace shadowprof::collect
