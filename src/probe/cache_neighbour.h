// SPDX-License-Identifier: MIT
//
// What a program of some megabytes loses where another core works on as much memory of its own:
// cores share their last cache, and how much of it they have is no fact that a host tells. A loop
// changes words at random, and in every other period of some milliseconds a neighbour does so, too;
// a period with it is compared with the one before.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "probe/host_notes.h"

namespace shadowprof::probe {

// By what share the loop is slower beside its neighbour: 0.1 is a tenth. Both work on 7 MB. Takes
// 70 milliseconds of two cores, and a quarter of a second at most, as a rule. Nothing: this process
// may use one core only, or somebody else used the second one.
std::optional<double> measure_cache_neighbour();

// What earlier runs have measured on this host: the least counts. For seconds at a time two
// processors may be threads of one core, each of which loses 40 % by the other.
class CacheNeighbourNotes {
 public:
  explicit CacheNeighbourNotes(const HostNotes& notes);

  std::optional<double> loss() const;
  // By `measure`, where it is not known well and can be kept.
  void add(const std::function<std::optional<double>()>& measure);

 private:
  const HostNotes& notes_;
  std::vector<double> rounds_;  // losses; less than 0: one that gave nothing
};

}  // namespace shadowprof::probe
