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
#include "machine/page_faults.h"

namespace shadowprof::shadow {

// Seconds on a processor, and waiting for one.
struct ProcessorTime {
  double used = 0;
  double waited = 0;
};

// A thread's, from /proc.
ProcessorTime processor_time_of(Tid tid);
// How long a replica has been on a processor; what /proc last knew of one that has ended.
double replica_seconds(Tid replica);

class EngineClock {
 public:
  // What has kept a replica from its program, in all: stops for the tracer, bytes of trace that he
  // has taken.
  struct Work {
    uint64_t stops = 0;
    uint64_t drained = 0;
    uint64_t calls = 0;    // system calls, each one of the stops
    double answering = 0;  // seconds that it was on a processor for calls that the tracer answered
  };
  // Does the replica record what it executes, in the code cache, or is it native?
  enum class Of : uint8_t { recorded, native };
  // From now on.
  void start(Of of, Tid replica, const machine::FaultPrice& price, const Work& work);
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

  Of of_ = Of::recorded;
  Tid replica_;
  machine::FaultPrice price_;
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
