// SPDX-License-Identifier: MIT
//
// From counts of runs by thread to the profile's threads and their code
// (profile/tables/thread_code_table.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collect/table_builder.h"
#include "profile/profile.h"
#include "trace/block_table.h"
#include "trace/thread_counts.h"

namespace shadowprof::collect {

// `totals`: how often each run was executed, which its threads share as their counts of it are.
void add_thread_tables(const trace::BlockTable& table, const TableBuilder& builder,
                       std::span<const uint64_t> totals,
                       std::span<const trace::ThreadCount> threads, profile::Profile& out);

}  // namespace shadowprof::collect
