// SPDX-License-Identifier: MIT
//
// The code that earlier runs of a program in full mode have executed, in the order in which it came
// (emu/translate/foresight.h): a file for each program in the user's cache folder.
//
//   order()   what is known when the program starts
//   keep()    what this run has executed, and behind it what only earlier ones have
//
// A file that is damaged, or of another state of the program, is as good as none. A program has one
// file for each set of conditions, in whichever state it is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/cache_folder.h"
#include "emu/translate/foresight.h"
#include "trace/block_table.h"
#include "trace/pair_count.h"

namespace shadowprof::sample {

class CodeHistory {
 public:
  // `conditions`: what else must be the same for places to be the same.
  CodeHistory(CacheFolder folder, const std::string& program, const std::string& conditions);

  const emu::CodeOrder& order() const { return order_; }
  // `executions`: of runs, by number.
  void keep(const trace::BlockTable& table, std::span<const uint64_t> executions,
            std::span<const trace::PairCount> pairs);

  static constexpr size_t kMostPlaces = size_t{1} << 16;
  static constexpr size_t kMostBytes = size_t{2} << 20;
  static constexpr size_t kMostFiles = 256;
  static constexpr size_t kMostBytesOfAll = size_t{64} << 20;

 private:
  struct Known {
    std::vector<std::string> modules;
    std::vector<emu::OrderedPlace> places;
  };
  class Gatherer;

  Known load() const;
  emu::CodeOrder make_order();
  void write(const Known& known) const;

  CacheFolder folder_;
  std::string head_;
  std::string name_;
  emu::CodeOrder order_;
};

}  // namespace shadowprof::sample
