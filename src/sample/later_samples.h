// SPDX-License-Identifier: MIT
//
// How many samples one replica gives. When one is over the replica may go on natively and give
// another of what the program does a little later: that costs no fork, only what the program copies
// because the replica still has its pages. Most programs write to the same pages again and again, so
// that becomes less the longer the replica lives, while a fork costs as much every time.
//
// What it has cost keeps the next fork off for some time. For the share of that time that the load
// allows the replica goes on, but not until it has cost a second's budget, or twice its fork. What
// it executes is what the program executed since the fork, or will: it falls behind while it
// records.
//
// Where code is new recording takes long, up to forty times as long as the program itself: samples
// are shorter then, and the replica executes more of the program between two of them, for it is to
// get about nevertheless. That goes by all samples up to now, not by the last one: of code that is
// slow to record there would be fewer.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "sample/governor.h"
#include "shadow/execution.h"

namespace shadowprof::sample {

class LaterSamples {
 public:
  explicit LaterSamples(const GovernorOptions& options);

  // A replica whose fork stopped the program for `pause` seconds.
  void begin(double pause);
  // It is to end, with its present sample.
  bool is_too_dear(double cost) const;
  // A sample of it is over; it has lived for `age` seconds, in which it has cost the program `cost`
  // seconds. Nothing: it has given enough.
  std::optional<shadow::NextSample> next(double age, double cost);

 private:
  double max_overhead_;
  double load_;
  std::mt19937_64 random_;
  // Of the present replica.
  double pause_ = 0;
  double last_age_ = 0;
  double last_native_ = 0;
  // Of all.
  double samples_ = 0;
  double recording_ = 0;  // seconds
};

}  // namespace shadowprof::sample
