// SPDX-License-Identifier: MIT
//
// Which records of bouts (emu/translate/translator_bouts.cc) are looked at: the first executions of
// each are not.
#pragma once

#include <cstdint>

#include "trace/block_table.h"

namespace shadowprof::collect {

class TimedBouts {
 public:
  // Records of a thread follow.
  void begin() { last_place_ = trace::kBoutExecutions; }
  // What the record's slot of the kind `bout` has. True: it counts.
  bool look(uint64_t bout) {
    const uint64_t place = trace::place_in_bout(bout);
    if (place <= last_place_) bouts_++;
    last_place_ = place;
    return place >= kUnsettled;
  }
  // Those that have begun. What is seen of one is one observation.
  uint64_t bouts() const { return bouts_; }

 private:
  // So many fragments lie within what a processor begins with before a branch that it foresaw
  // wrongly is decided: some dozens of instructions.
  static constexpr uint64_t kUnsettled = 4;

  uint64_t bouts_ = 0;
  uint64_t last_place_ = trace::kBoutExecutions;
};

}  // namespace shadowprof::collect
