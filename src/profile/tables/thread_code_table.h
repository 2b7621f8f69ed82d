// SPDX-License-Identifier: MIT
//
// Which code each thread executed: instructions by place and thread. Who counts runs for each
// thread (collect/thread_tables.h) fills it by block; when functions are named, rows become those
// of functions, and what belongs to none is one row for each module and thread. So a profile has at
// most as many rows as threads times functions.
//
// Together the rows have all instructions that were attributed; in merged profiles, those of the
// profiles that know threads.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct ThreadCodeRow {
  CodeRef at;           // a function's first instruction, or code that is in none
  uint32_t thread = 0;  // index into the table of threads
  uint64_t instructions = 0;
  auto key() const { return std::tuple(at, thread); }
};

using ThreadCodeTable = std::vector<ThreadCodeRow>;  // by place, thread; unique

inline constexpr Columns kThreadCodeColumns{
    code_place<&ThreadCodeRow::at>("module", "offset"),
    column<&ThreadCodeRow::thread>("thread"),
    column<&ThreadCodeRow::instructions>("instructions").sum(),
};
inline constexpr TableLayout<ThreadCodeRow> kThreadCodeLayout{
    .name = "thread_code", .title = "code by thread", .columns = kThreadCodeColumns};

struct Profile;

// Rows of this table, and of the one of time by moment, become those of the profile's functions.
void attribute_to_functions(Profile& profile);
// Threads of the same name become one, in the order of names. For sums of several runs.
void join_threads_by_name(Profile& profile);
// Two rows of one thread (its id, and its process where both know that) become one. For facts of
// threads that come from several sources.
void join_threads_by_id(Profile& profile);

}  // namespace shadowprof::profile
