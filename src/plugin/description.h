// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shadowprof::plugin {

// How a plug-in describes itself.
struct Description {
  struct Column {
    std::string name;
    uint32_t kind = 0;  // SHADOWPROF_CELL_...
    bool operator==(const Column&) const = default;
  };
  std::string name;
  std::string weight;
  uint32_t wants = 0;  // SHADOWPROF_WANTS_...
  std::vector<Column> columns;
  bool operator==(const Description&) const = default;
};

}  // namespace shadowprof::plugin
