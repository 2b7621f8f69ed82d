// SPDX-License-Identifier: MIT
//
// How long a replica has executed its program's code: its time on a processor, less what only
// replicas spend it on. Code that is slow for the program (caches miss, branches are mispredicted)
// is slow for the replica too, so that samples of equal time hold instructions in the proportion in
// which the program executes them; samples of equal numbers of instructions would hold too many of
// the slow ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/types.h"

namespace shadowprof::shadow {

// Seconds on a processor, and waiting for one.
struct ProcessorTime {
  double used = 0;
  double waited = 0;
};

// Of a thread, from /proc.
ProcessorTime processor_time_of(Tid tid);
// Seconds that a process of one thread has been on a processor, up to this moment; 0 if it is no more.
// A tenth of what it takes to read them from /proc, where they are up to a clock tick old.
double processor_seconds_of(Tid process);

// What page faults cost, in seconds.
struct FaultPrice {
  double copied = 2e-6;    // a page is copied: somebody else has it, too
  double kept = 0.8e-6;    // nobody has it any more
  double mapped = 0.8e-6;  // it is shared for good
};

class EngineClock {
 public:
  // What has kept a replica from its program, in all: stops for the tracer, bytes of trace that he
  // has taken.
  struct Work {
    uint64_t stops = 0;
    uint64_t drained = 0;
    double answering = 0;  // seconds that it was on a processor for calls that the tracer answered
  };
  // From now on.
  void start(Tid replica, const FaultPrice& price, const Work& work);
  // Up to now, when its thread has `used` so much of a processor.
  double seconds(double used, const Work& work) const;
  // What is left of a sample's seconds; deductions are estimates, so never nothing.
  static double without(double seconds, double ours);
  // What is left of a sample's seconds without the writing of so many words of a trace.
  static double without_words(double seconds, uint64_t words);
  // By the wall's clock.
  double since_start() const;
  // seconds() is not more than that, which takes no look at the replica.
  double seconds_at_most(double used, const Work& work) const {
    return used - used_before_ - (work.answering - work_before_.answering);
  }

 private:
  struct Counts {
    uint64_t faults = 0;  // page faults
    uint64_t mapped = 0;  // pages of files and of our trace buffers
  };
  Counts now() const;

  Tid replica_;
  FaultPrice price_;
  std::chrono::steady_clock::time_point started_;
  double used_before_ = 0;  // seconds on a processor
  Work work_before_;
  Counts before_;
};

// When the clock must be read next for a sample of a certain length: it does not run faster than
// the wall's.
class Deadline {
 public:
  void start(double seconds);
  bool is_due() const { return seconds_until() <= 0; }
  // Infinite before start().
  double seconds_until() const;

 private:
  std::optional<std::chrono::steady_clock::time_point> at_;
};

}  // namespace shadowprof::shadow
