// SPDX-License-Identifier: MIT
//
// What page faults cost, and the other exceptions that replicas have, in seconds; the numbers here
// hold until something was measured (probe/fault_price.h).
#pragma once

namespace shadowprof::machine {

struct FaultPrice {
  double copied = 2e-6;    // a page is copied: somebody else has it, too
  double kept = 0.8e-6;    // nobody has it any more
  double mapped = 0.8e-6;  // it is shared for good
  // What a stop for the tracer takes of the time of the one who stops: an exception, two switches,
  // and caches that others have used meanwhile. Replicas of cc1plus that stopped 500 to 1800 times
  // were on a processor for 4.7 us more for each.
  double stopped = 5e-6;
};

}  // namespace shadowprof::machine
