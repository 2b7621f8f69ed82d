// SPDX-License-Identifier: MIT
//
// When to look next where a program is, so that its code is translated before it is needed: often
// at first, less and less often when nothing new is found, and never for more than a share of the
// time. Times are seconds since sampling began.
#pragma once

#include <cstdint>
#include <random>

namespace shadowprof::sample {

class LookSchedule {
 public:
  // `share`: of the time, that looks may take. The first one is at `begin`.
  LookSchedule(double share, double begin, uint64_t seed);

  double next() const { return next_; }
  // It took `pause` seconds.
  void looked(double now, double pause, bool found_new);
  // What was seen had not been translated: the look after the next one comes soon.
  void found_new();
  // The program cannot be looked at now.
  void missed(double now);
  // Nothing is known of the program any more.
  void restart(double now);

 private:
  double share_;
  double next_;
  double gap_;
  std::mt19937_64 random_;
};

}  // namespace shadowprof::sample
