// SPDX-License-Identifier: MIT
//
// Cache lines that several threads access in one stretch of time, at least one of them writing, by
// pairs of instructions: the writer's and the other thread's. docs/hazards.md says what is counted.
//
// `count` is how often the line can have gone from one thread to the other: at most so often.
// Which line is said is the one that most of it is about; bytes are those of that line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/memory_table.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

enum class SharingKind : uint8_t {
  false_sharing,  // the two access different bytes of the line
  true_sharing,   // at least one byte is the same
};
inline constexpr size_t kSharingKinds = 2;
inline constexpr const char* kSharingKindNames[kSharingKinds] = {"false_sharing", "true_sharing"};

inline const char* to_string(SharingKind kind) {
  return kSharingKindNames[static_cast<size_t>(kind)];
}
std::optional<SharingKind> sharing_kind_from(std::string_view name);

// So many lines of a pair are told apart.
inline constexpr uint64_t kMostSharedLines = 64;

struct SharingRow {
  SharingKind kind = SharingKind::false_sharing;
  CodeRef from;  // writes
  CodeRef to;    // of the other thread; where it writes, too, the higher of the two places
  uint64_t count = 0;
  uint64_t stretches = 0;        // in which both accessed one line
  uint64_t lines = 0;            // different ones, at most kMostSharedLines
  uint64_t from_executions = 0;  // all of the instruction's
  uint64_t to_executions = 0;
  DataRef line;             // that most of it is about, in one run
  uint64_t line_count = 0;  // of count, what is that line's
  uint64_t from_bytes = 0;  // of that line, a bit each
  uint64_t to_bytes = 0;
  std::string from_text{};  // disassembled; not in the file's table
  std::string to_text{};
  auto key() const { return std::tuple(kind, from, to); }
};

using SharingTable = std::vector<SharingRow>;  // by kind, from, to; unique

// `b` has the same key, and becomes part of `a`.
void add_sharing(SharingRow& a, const SharingRow& b);

inline constexpr NameList kSharingKindList{"kinds", kSharingKindNames, "kind of sharing"};
inline constexpr Columns kSharingColumns{
    name_list<SharingRow>(kSharingKindList),
    named<&SharingRow::kind>("kind", kSharingKindList),
    code_place<&SharingRow::from>("from_module", "from_offset"),
    code_place<&SharingRow::to>("to_module", "to_offset"),
    column<&SharingRow::count>("count").sum(),
    column<&SharingRow::stretches>("stretches").sum(),
    column<&SharingRow::lines>("lines").greatest(),
    column<&SharingRow::from_executions>("from_executions").sum(),
    column<&SharingRow::to_executions>("to_executions").sum(),
    data_place<&SharingRow::line>(),
    column<&SharingRow::line_count>("line_count"),
    column<&SharingRow::from_bytes>("from_bytes"),
    column<&SharingRow::to_bytes>("to_bytes"),
};
inline constexpr TableLayout<SharingRow> kSharingLayout{
    .name = "sharing", .title = "shared lines", .columns = kSharingColumns, .join = add_sharing};

}  // namespace shadowprof::profile
