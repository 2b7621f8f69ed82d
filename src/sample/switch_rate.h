// SPDX-License-Identifier: MIT
//
// How often the threads of processes get a processor, all together: a server of hundreds of threads
// may switch a hundred thousand times a second while its first one sleeps. Of more than a few
// threads some are drawn, and taken for all.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>

#include "base/types.h"

namespace shadowprof::sample {

class SwitchRate {
 public:
  void begin(Tid process) { processes_.insert(process); }
  void forget(Tid process) { processes_.erase(process); }
  // Switches since the last look; 0 at the first one.
  double look(std::mt19937_64& random);

 private:
  double since_last() const;
  void draw(std::mt19937_64& random);

  std::set<Tid> processes_;
  size_t threads_ = 0;            // at the last look
  std::map<Tid, uint64_t> runs_;  // of those that were drawn then
};

}  // namespace shadowprof::sample
