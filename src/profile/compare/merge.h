// SPDX-License-Identifier: MIT
//
// Many profiles as one: runs of one program, on one host or on many. Memory is that of the sum and
// of one profile, however many are added. Tables of code are as large as the code; those that other
// data makes longer with each run (paths, values, addresses) keep their hottest rows when they have
// more than twice as many as MergeLimits says, and what goes is counted.
//
// Modules are the same where their build-ids are; where a module has none, where its path is
// (anonymous code: its address), and a profile whose module of that path has other functions is
// refused. Counts are added, each multiplied by the profile's weight, and the sum obeys the same
// conservation laws as its parts. The result does not depend on the order of adding, nor on what
// was merged before: merge(a, merge(b, c)) = merge(merge(b, a), c). Exceptions, which change no
// sum: source lines of hotlists come from hotlists, so a row that no merged hotlist had needs the
// `lines` of hotlists(); where the end of a block was never reached, because each of its executions
// was interrupted, other blocks may be cut there or not; standard errors are rounded at each step;
// and a table that outgrew its limit has lost rows, in each order others.
//
// What all runs have in common remains of the run; the earliest start, the sum of durations. Each
// run that was added is listed in run.merged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "profile/profile.h"

namespace shadowprof::profile {

inline constexpr uint64_t kMaxMergeWeight = 1'000'000'000;

struct MergeLimits {
  size_t paths = 200'000;
  size_t cache_lines = 200'000;
  size_t pages = 100'000;     // of slow loads
  size_t values = 100'000;    // of slow loads
  size_t values_of_row = 64;  // the hottest values of an instruction or argument
};

class Merger {
 public:
  explicit Merger(const MergeLimits& limits = {}) : limits_(limits) {}

  // An error where the sum would not fit into 63 bits; the merger must not be used any more then.
  Status add(Profile profile, const std::string& file, uint64_t weight);

  // The sum, without hotlists. The last that is added.
  Profile finish();
  // For the sum; `lines` is asked where the hotlists of the parts do not know a line.
  Hotlists hotlists(const Profile& sum, size_t top, const LineLookup& lines = {}) const;

 private:
  using FileOffset = std::pair<std::string, uint64_t>;  // module's key, offset

  Status check_builds(const Profile& profile, const std::string& file) const;
  std::vector<uint32_t> map_modules(const ModuleTable& modules);
  void take_lines(const Profile& profile);
  void take_functions(const Profile& profile, const std::vector<uint32_t>& module_in_sum);
  void take_inlined(InlinedTable inlined, const std::vector<uint32_t>& module_in_sum);
  void order_modules();

  const MergeLimits limits_;
  Profile sum_;
  bool empty_ = true;
  std::optional<Confidence> of_only_;  // the profile, while there is one
  bool has_contexts_ = false;
  bool estimated_inclusive_ = false;
  std::map<std::string, uint32_t> module_of_key_;
  std::map<CodeRef, Function> functions_;
  std::map<FileOffset, SourceLine> lines_;
};

// What makes two modules the same file: see above.
std::string module_key(const Module& module);

}  // namespace shadowprof::profile
