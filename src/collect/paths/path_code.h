// SPDX-License-Identifier: MIT
//
// Machine code that follows records from node to node (path_automaton.h says of what). A node's
// code compares the next record's run with those that came there before, one after the other; where
// one is equal it does what there is to do, which is mostly nothing, and is at the next node's
// code. So each comparison is at a place of its own, and processors foresee most of them. Behind
// some comparisons comes a table of the node's own (where an interpreter's loop looks at what is
// next, say).
//
// Code is added while what there is may have been executed: it is reached by changing the target of
// one jump, by one store that no processor sees half of.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/own_code.h"
#include "trace/record.h"

namespace shadowprof::collect {

// From a node to another, by a record.
struct PathEdge {
  uint32_t run;
  uint32_t words;
  uint32_t site = 0;  // a call's, or 0
  bool returns = false;
  std::optional<uint32_t> ends = {};  // a path: this one's counter
};

class PathCode {
 public:
  static constexpr size_t kBytes = size_t{96} << 20;
  static constexpr uint32_t kMostNodes = uint32_t{1} << 19;
  static constexpr uint32_t kMostWords = 64;  // of a record

  // `counters` must outlive it. Where memory may not be made executable, it does not work.
  explicit PathCode(uint64_t* counters);

  bool works() const { return memory_.has_value(); }
  bool has_room() const;
  // Nodes are numbered from 0 on.
  void make_node();
  // To a node that has no edge yet, another one that is added next lies right behind. Does nothing
  // where the edge's place in a table is taken.
  void add(uint32_t from, const PathEdge& edge, uint32_t to);
  // What was added can be executed.
  void finish();

  struct Progress {  // as a function of the System V ABI returns it
    const trace::Word* at;
    uint64_t node;
  };
  // Goes on from a node, to a record of a run that does not lead on from where it came to. `sites`:
  // where the next call's site is put.
  Progress follow(uint32_t node, const trace::Word* at, uint32_t*& sites) const {
    return function_(memory_->executable() + entry_of(node), at, counters_, &sites);
  }

 private:
  using Function = Progress (*)(const void* code, const trace::Word* at, uint64_t* counters,
                                uint32_t** sites);
  // Where a run's edge is, by some bits of its number.
  struct Slot {
    uint32_t run;   // kFree: the code leaves
    uint32_t code;
  };
  static constexpr uint32_t kFree = ~uint32_t{0};
  static constexpr uint32_t kTableShift = 32 - 9;
  using Table = std::array<Slot, size_t{1} << (32 - kTableShift)>;
  static constexpr size_t kMostTables = 2048;
  static constexpr uint32_t kSpread = 0x9E3779B9;  // the golden ratio
  static constexpr uint16_t kMostComparisons = 6;
  struct Place {
    uint32_t entry = 0;  // its first comparison; 0: it has none
    uint32_t open;       // the displacement of the jump to what comes when none is equal
    uint16_t comparisons = 0;
    uint16_t table = 0;  // 1 + index
  };

  uint32_t entry_of(uint32_t node) const;
  uint32_t exit_of(uint32_t node) const;
  class Writer;
  void take(Writer& w, const PathEdge& edge, uint32_t to);

  std::optional<OwnCode> memory_;
  uint64_t* counters_;
  Function function_ = nullptr;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::optional<uint32_t>
      falls_to_;  // the node whose code begins at used_, if an edge is added next
  uint32_t leave_ = 0;
  uint32_t used_ = 0;
};

}  // namespace shadowprof::collect
