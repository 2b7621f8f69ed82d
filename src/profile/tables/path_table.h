// SPDX-License-Identifier: MIT
//
// Executed paths: sequences of blocks between two boundaries (collect/paths/path_collector.h says
// what bounds a path). A block is named by where control came in; straight-line code that an engine
// had to split is one block.
//
// The table is pruned to bound its memory: see PathCounts. It never lacks a path that was executed
// more than `error_bound` times, and no count is too low by more than that.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct PathRow {
  uint64_t count = 0;
  uint64_t insns = 0;  // instructions of one execution
  // Call site of the frame in which the path begins: the one that most executions had, if there is
  // one (a majority vote). from_count: executions of the run whose vote it is; 0 where there was no
  // call. Of several runs that with most executions decides, so their order does not matter.
  uint64_t from_count = 0;
  CodeRef from;
  std::vector<CodeRef> blocks;
  uint64_t error = 0;  // of the count: confidence.h
  const std::vector<CodeRef>& key() const { return blocks; }
};

using PathTable = std::vector<PathRow>;  // by blocks; unique

// `b` has the same blocks, and becomes part of `a`.
void add_paths(PathRow& a, const PathRow& b);

inline constexpr Columns kPathColumns{
    column<&PathRow::count>("count").sum(),
    column<&PathRow::insns>("insns"),
    column<&PathRow::error>("error").error().with_errors(),
    column<&PathRow::from_count>("called"),
    code_place<&PathRow::from>("from_module", "from_offset", is_set<&PathRow::from_count>),
};
inline constexpr Columns kPathBlockColumns{
    column<&CodeRef::module>("module").module_if(nullptr),
    column<&CodeRef::offset>("offset"),
};
using PathBlocks = ChildTable<&PathRow::blocks>;
inline constexpr TableLayout<PathRow, PathBlocks> kPathLayout{
    .name = "paths",
    .title = "paths",
    .columns = kPathColumns,
    .join = add_paths,
    .children = PathBlocks{.name = "path_blocks", .row = "path", .columns = kPathBlockColumns}};

struct PathCounts {
  bool collected = false;
  bool intra = false;        // --path-scope intra
  uint64_t executions = 0;   // of all paths, those that were pruned included
  uint64_t distinct = 0;     // rows before the file was bounded
  uint64_t pruned = 0;       // executions that no row has
  uint64_t error_bound = 0;  // see above
  uint64_t dropped = 0;      // partial paths: before a sample's first boundary, after its last
};
// Two runs may have the same path: then it counts twice in `distinct`.
inline constexpr Columns kPathCountColumns{
    column<&PathCounts::executions>("executions").sum(),
    column<&PathCounts::distinct>("distinct").once(),
    column<&PathCounts::pruned>("pruned").sum(),
    column<&PathCounts::error_bound>("error_bound").sum(),
    column<&PathCounts::dropped>("dropped").sum(),
};

struct Profile;

// Leaves the `most` hottest rows, and fewer where equal counts would not fit; what goes is counted
// as pruned.
void keep_hottest_paths(Profile& profile, size_t most);

void add_path_counts(PathCounts& into, const PathCounts& from);

}  // namespace shadowprof::profile
