// SPDX-License-Identifier: MIT
//
// Executed (branch, target) transitions, fall-throughs of conditional branches included.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "profile/module_table.h"

namespace shadowprof::profile {

enum class EdgeKind : uint8_t { not_taken, taken, jump, call, indirect_jump, indirect_call, ret };
inline constexpr size_t kEdgeKinds = 7;

const char* to_string(EdgeKind kind);
std::optional<EdgeKind> edge_kind_from(std::string_view name);

struct Edge {
  CodeRef from;  // the branch instruction
  CodeRef to;
  EdgeKind kind = EdgeKind::taken;
  uint64_t count = 0;
  uint64_t error = 0;  // confidence.h
};

using EdgeTable = std::vector<Edge>;  // by from, to, kind; unique

}  // namespace shadowprof::profile
