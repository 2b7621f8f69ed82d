// SPDX-License-Identifier: MIT
//
// Executed (branch, target) transitions, fall-throughs of conditional branches included.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

enum class EdgeKind : uint8_t { not_taken, taken, jump, call, indirect_jump, indirect_call, ret };
inline constexpr size_t kEdgeKinds = 7;
inline constexpr const char* kEdgeKindNames[kEdgeKinds] = {
    "not_taken", "taken", "jump", "call", "indirect_jump", "indirect_call", "ret"};

// Conditional or not.
constexpr bool is_jump(EdgeKind kind) {
  return kind == EdgeKind::taken || kind == EdgeKind::jump || kind == EdgeKind::indirect_jump;
}

const char* to_string(EdgeKind kind);
std::optional<EdgeKind> edge_kind_from(std::string_view name);

struct Edge {
  CodeRef from;  // the branch instruction
  CodeRef to;
  EdgeKind kind = EdgeKind::taken;
  uint64_t count = 0;
  uint64_t error = 0;  // confidence.h
  auto key() const { return std::tuple(from, to, kind); }
};

using EdgeTable = std::vector<Edge>;  // by from, to, kind; unique

inline constexpr NameList kEdgeKindList{"kinds", kEdgeKindNames, "kind of edge"};
inline constexpr Columns kEdgeColumns{
    name_list<Edge>(kEdgeKindList),
    code_place<&Edge::from>("from_module", "from_offset"),
    code_place<&Edge::to>("to_module", "to_offset"),
    named<&Edge::kind>("kind", kEdgeKindList),
    column<&Edge::count>("count").sum(),
    column<&Edge::error>("error").error().with_errors(),
};
inline constexpr TableLayout<Edge> kEdgeLayout{
    .name = "edges", .title = "edges", .columns = kEdgeColumns, .written = Written::always};

}  // namespace shadowprof::profile
