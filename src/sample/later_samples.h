// SPDX-License-Identifier: MIT
//
// How many samples one replica gives. When one is over the replica may go on natively and give
// another of what the program does a little later: that costs no fork, only what the program copies
// because the replica still has its pages. Most programs write to the same pages again and again,
// so that becomes less the longer the replica lives, while a fork costs as much every time.
//
// What it has cost keeps the next fork off for some time. For the share of that time that the load
// allows the replica goes on, but not until it has cost a second's budget, or twice its fork. What
// it executes is what the program executed since the fork, or will: it falls behind while it
// records.
#pragma once

#include <optional>
#include <random>

#include "sample/governor.h"
#include "shadow/execution.h"

namespace shadowprof::sample {

class LaterSamples {
 public:
  // The fork stopped the program for `pause` seconds.
  LaterSamples(const GovernorOptions& options, double pause, uint64_t seed);

  // A sample is over; the replica has lived for `age` seconds, in which it has cost the program
  // `cost` seconds. Nothing: it has given enough.
  std::optional<shadow::NextSample> next(double age, double cost);

 private:
  std::mt19937_64 random_;
  double max_overhead_;
  double load_;
  double pause_;
};

}  // namespace shadowprof::sample
