// SPDX-License-Identifier: MIT
//
// Counts the accesses of records by code that is made for each run: what follows from the run alone
// (where its registers are, what is added to them, how long it is) are constants in it, and each
// run's code ends with a jump of its own to that of the next record's run. Processors foresee where
// such a jump goes from what the program did before; they do not foresee the loops and the single
// jump of a reader that serves all runs, and that was half of what a record cost.
//
//   LineCode code(lines);
//   code.add(id, words, accesses);     // what is executed often
//   Progress p = code.count(at, end);  // records from `at` on, up to one that has no code
//
// Words are the program's to change while they are read: they are only ever taken for addresses,
// and a run's id is looked at once.
#pragma once

#include <optional>
#include <span>
#include <tuple>

#include "base/limits.h"
#include "base/own_code.h"
#include "base/reserved_array.h"
#include "collect/loads/line_counts.h"
#include "collect/recorded_words.h"

namespace shadowprof::collect {

// Accesses of a run to one place, through registers. Without base it has its index for it, times
// one less.
struct LineAccess {
  uint64_t fixed;
  uint64_t what;  // loads and stores (line_counts.h)
  uint16_t base_word;
  uint16_t index_word;
  uint8_t index_scale;

  auto through() const { return std::tuple(index_scale, base_word, index_word); }
  auto place() const {
    return std::tuple(index_scale, base_word, index_word, static_cast<int64_t>(fixed));
  }
  uint64_t address(const trace::Word* words) const {
    return fixed + value_at(words, base_word) + value_at(words, index_word) * index_scale;
  }
};

class LineCode {
 public:
  static constexpr size_t kBytes = size_t{64} << 20;

  // `lines` must outlive it. Where memory may not be made executable, nothing has code.
  explicit LineCode(LineCounts& lines, size_t bytes = kBytes);

  // `executions`: counted by the code, unless null. `known`: what Progress::accesses counts.
  // False: there is no room for it.
  bool add(RunId run, uint32_t words, std::span<const LineAccess> accesses, uint32_t known,
           uint64_t* executions);

  struct Progress {  // as a function of the System V ABI returns it
    const trace::Word* at;
    uint64_t accesses;
  };
  // From `at` on to the first record that has no code, or begins at `limit` or behind: at least
  // limits::kMaxRecordWords before the end of what can be read.
  Progress count(const trace::Word* at, const trace::Word* limit) const {
    if (!function_ || at >= limit) return {at, 0};
    return function_(at, limit);
  }

 private:
  using Function = Progress (*)(const trace::Word* at, const trace::Word* limit);

  std::optional<OwnCode> memory_;
  ReservedArray<uint32_t> entries_;  // where a run's code is; 0: where there is none, out of here
  Function function_ = nullptr;
  uint32_t open_way_ = 0;
  uint32_t used_ = 0;
};

}  // namespace shadowprof::collect
