// SPDX-License-Identifier: MIT
//
// How long the threads of a program ran, and waited for a processor while they wanted one, as the
// kernel says (/proc/TID/schedstat). A thread that has ended counts with what was said of it last,
// so sums are lower bounds.
#pragma once

#include <cstdint>
#include <map>

#include "base/types.h"

namespace shadowprof::sample {

class ProgramSchedule {
 public:
  // Times count from now on; those of threads that begin later count from their beginning.
  void begin(Tid process);
  void look();

  // The thread that the process began with.
  double first_waited_s() const;
  double first_share() const;      // of what all have run; 1 where none was seen to
  double others_waited_s() const;  // all others, added up

 private:
  struct Sum {
    uint64_t at_begin_ns = 0;
    uint64_t last_ns = 0;
    double seconds() const { return 1e-9 * static_cast<double>(last_ns - at_begin_ns); }
  };
  struct Times {
    Sum ran, waited;
  };
  double of_first(Sum Times::*sum) const;

  Tid process_;
  std::map<Tid, Times> threads_;
};

}  // namespace shadowprof::sample
