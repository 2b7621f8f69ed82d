// SPDX-License-Identifier: MIT
//
// Which of a program's page faults are our doing. While a replica lives the program copies each
// page that both have when it writes to it; afterwards it faults once more for each that it did not
// copy. The kernel counts these faults together with the program's own, of which there are, in some
// time,
//
//   as many as in an equal time without a replica, or
//   as many as it has more pages than before,
//
// whichever is more. Ours are the rest, and not more than the pages that it had.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sample/governor.h"

namespace shadowprof::sample {

// Of the program, at a moment.
struct FaultMarks {
  uint64_t faults = 0;  // up to then
  uint64_t pages = 0;   // of its own, resident
};

class FaultAccount {
 public:
  // Around the life of a replica: what it cost.
  void begin(double now, const FaultMarks& marks, SampleCost& cost);
  void end(double now, const FaultMarks& marks, SampleCost& cost);
  // There was none after begin().
  void failed(const SampleCost& cost);
  // Ours, since the last begin() or end().
  double ours(double now, const FaultMarks& marks) const;

 private:
  double rate_ = 0;                  // of the program by itself, a second
  size_t alive_ = 0;                 // replicas between begin() and end()
  double unclaimed_ = 0;             // of those that live, and no end() has had
  double unclaimed_afterwards_ = 0;  // of begin() that had no replica
  FaultMarks before_;                // at the last begin() or end()
  double event_at_ = 0;
};

}  // namespace shadowprof::sample
