// SPDX-License-Identifier: MIT
//
// What accesses to memory do to one another within a thread, by pairs of instructions: what keeps
// the processor waiting (hazards), and what need not have been done (waste). docs/hazards.md says
// what each kind means.
//
// Executions are those of the instruction that is judged: of a dead store the store, of all others
// the later access. Hazards count those of which enough was seen before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

enum class PairKind : uint8_t {
  forwarding,       // a load overlaps a store shortly before, which does not contain it
  aliasing,         // a load and a store shortly before agree in the low 12 bits only
  load_line_split,  // of one instruction: it crosses a cache line
  store_line_split,
  load_page_split,  // and a page
  store_page_split,
  dead_store,      // overwritten before anybody has read it
  redundant_load,  // the same bytes once more, with no store between
  silent_store,    // of one instruction: of what is there already
};
inline constexpr size_t kPairKinds = 9;
inline constexpr const char* kPairKindNames[kPairKinds] = {
    "forwarding",       "aliasing",   "load_line_split", "store_line_split", "load_page_split",
    "store_page_split", "dead_store", "redundant_load",  "silent_store"};

inline const char* to_string(PairKind kind) {
  return kPairKindNames[static_cast<size_t>(kind)];
}
std::optional<PairKind> pair_kind_from(std::string_view name);
// It is about two instructions.
constexpr bool is_pair(PairKind kind) {
  return kind != PairKind::silent_store &&
         (kind < PairKind::load_line_split || kind > PairKind::store_page_split);
}

struct AccessPairRow {
  PairKind kind = PairKind::forwarding;
  CodeRef from;  // the earlier access; of one instruction the same as `to`
  CodeRef to;    // the later one
  uint64_t count = 0;
  uint64_t executions = 0;  // of which `count` are a part
  uint64_t unknown = 0;     // of these: of dead stores only: it could not be told
  uint64_t distance = 0;    // in instructions, the sum
  uint64_t error = 0;       // of the count: confidence.h
  std::string from_text{};  // disassembled; not in the file's table
  std::string to_text{};
  auto key() const { return std::tuple(kind, from, to); }
};

using AccessPairTable = std::vector<AccessPairRow>;  // by kind, from, to; unique

inline constexpr NameList kPairKindList{"kinds", kPairKindNames, "kind of access"};
inline constexpr Columns kAccessPairColumns{
    name_list<AccessPairRow>(kPairKindList),
    named<&AccessPairRow::kind>("kind", kPairKindList),
    code_place<&AccessPairRow::from>("from_module", "from_offset"),
    code_place<&AccessPairRow::to>("to_module", "to_offset"),
    column<&AccessPairRow::count>("count").sum(),
    column<&AccessPairRow::executions>("executions").sum(),
    column<&AccessPairRow::unknown>("unknown").sum(),
    column<&AccessPairRow::distance>("distance").sum(),
    column<&AccessPairRow::error>("error").error().with_errors(),
};
inline constexpr TableLayout<AccessPairRow> kHazardLayout{
    .name = "hazards", .title = "hazards", .columns = kAccessPairColumns};
inline constexpr TableLayout<AccessPairRow> kWasteLayout{
    .name = "waste", .title = "waste", .columns = kAccessPairColumns};

}  // namespace shadowprof::profile
