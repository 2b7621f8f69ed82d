// SPDX-License-Identifier: MIT
//
// What a collector makes of several samples, each an observation of its own: numbers 1, 2, ...
#pragma once

#include <vector>

#include "collect/collector.h"
#include "synthetic.h"

namespace shadowprof::test {

using Samples = std::vector<std::vector<trace::Word>>;

template <typename Collector>
profile::Profile collected(Collector collector, const Samples& samples) {
  uint64_t number = 0;
  for (const std::vector<trace::Word>& words : samples) {
    const auto start = trace::sample_start(++number);
    const auto end = trace::sample_end(trace::EndReason::budget);
    collector.consume({Tid(1), start});
    collector.consume({Tid(1), words});
    collector.consume({Tid(1), end});
  }
  profile::Profile p;
  collector.finish(p);
  return p;
}

}  // namespace shadowprof::test
