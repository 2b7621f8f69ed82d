// SPDX-License-Identifier: MIT
//
// What page faults cost, in seconds; the numbers here hold until something was measured
// (probe/fault_price.h).
#pragma once

namespace shadowprof::machine {

struct FaultPrice {
  double copied = 2e-6;    // a page is copied: somebody else has it, too
  double kept = 0.8e-6;    // nobody has it any more
  double mapped = 0.8e-6;  // it is shared for good
};

}  // namespace shadowprof::machine
