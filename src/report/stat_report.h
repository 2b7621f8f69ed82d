// SPDX-License-Identifier: MIT
//
// Counts of a program on one screen, from one run or several: what `shadowprof stat` says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace shadowprof::report {

// A count in the runs so far.
struct Spread {
  uint64_t least = 0;
  uint64_t most = 0;
  bool varies() const { return least != most; }
};

struct StatCount {
  std::string name;
  Spread count;
};

struct StatFunction {
  std::string name;
  std::string module;  // path of the file that it is in
  std::string file;    // "": not known
  uint32_t line = 0;
  Spread instructions;  // of its own
};

class Stat {
 public:
  explicit Stat(std::vector<std::string> command) : command_(std::move(command)) {}

  // What another run counted; the names of `counts` are the same each time. The functions are those
  // of its profile.
  void add_run(const std::vector<StatCount>& counts, const profile::Profile& profile);

  size_t runs() const { return runs_; }
  // The names of what was not the same in each run. Functions count as one.
  std::vector<std::string> varying() const;

  // At most `functions` of them, those with the most instructions.
  std::string as_text(size_t functions) const;
  std::string as_json(size_t functions) const;

 private:
  uint64_t count_of(const std::string& name) const;
  std::string comment_on(const StatCount& row) const;
  std::string conclusion() const;
  std::vector<StatFunction> hottest(size_t most) const;

  std::vector<std::string> command_;
  std::string region_;  // "": all of the program
  size_t runs_ = 0;
  bool exact_ = true;  // each of them
  double duration_s_ = 0;
  std::vector<StatCount> counts_;
  std::vector<StatFunction> functions_;
};

}  // namespace shadowprof::report
