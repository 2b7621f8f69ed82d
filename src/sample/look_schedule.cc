// SPDX-License-Identifier: MIT
#include "sample/look_schedule.h"

#include <algorithm>

#include "sample/jitter.h"

namespace shadowprof::sample {
namespace {

constexpr double kShortest = 0.005;
constexpr double kLongest = 1.0;
constexpr double kGrowth = 1.5;

}  // namespace

LookSchedule::LookSchedule(double share, double begin, uint64_t seed)
    : share_(share), next_(begin), gap_(kShortest), random_(seed) {}

void LookSchedule::looked(double now, double pause, bool found_new) {
  gap_ = found_new ? kShortest : std::min(kLongest, kGrowth * gap_);
  next_ = now + std::max(jitter(random_) * gap_, pause / share_);
}

void LookSchedule::found_new() {
  gap_ = kShortest;
}

void LookSchedule::missed(double now) {
  next_ = now + kLongest;
}

void LookSchedule::restart(double now) {
  gap_ = kShortest;
  next_ = now;
}

}  // namespace shadowprof::sample
