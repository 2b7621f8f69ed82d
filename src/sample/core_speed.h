// SPDX-License-Identifier: MIT
//
// Whether a core is as fast as it can be. One that is not shares its execution units: with the other
// thread of the same core, which in a virtual machine may be anybody's, and another one in the next
// second. When it is the program's, each of the two takes up to twice as long; nothing tells that from
// a core shared with a stranger, so a replica that runs on such a core is taken to cost the program as much.
#pragma once

#include <limits>

#include "base/types.h"

namespace shadowprof::sample {

class CoreSpeed {
 public:
  // By what share work took longer just now than it ever has, on the core where `replica` ran last: 0.3
  // is three tenths, and the most. 0: nothing to speak of, or it cannot be told; the core of the program's thread is
  // not looked at. Takes this thread a tenth of a millisecond.
  double slow_down_of(Tid replica, Tid program);

 private:
  double least_ = std::numeric_limits<double>::infinity();  // seconds
};

}  // namespace shadowprof::sample
