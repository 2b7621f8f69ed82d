// SPDX-License-Identifier: MIT
#include "collect/weights/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shadowprof::collect {
namespace {

// Logarithms have these: the standard deviation of what a sample stands for by chance, and the half
// width of what an instruction of some code takes (Cauchy's distribution).
constexpr double kSampleSpread = 1;
constexpr double kRegionSpread = 0.6;
// Fewer ticks say less than the samples.
constexpr double kFewestTicks = 50;
constexpr int kSteps = 300;
constexpr double kMostOfAStep = 0.5;

}  // namespace

ClockFit::ClockFit(std::vector<Sample> samples, Shares ticks)
    : samples_(std::move(samples)),
      ticks_(ticks),
      factor_logs_(samples_.size(), 0),
      factors_(samples_.size(), 1) {
  Shares met{};
  double all_time = 0;
  for (const Sample& sample : samples_) {
    all_time += sample.time;
    for (size_t c = 0; c < kCodeRegions; c++) met[c] += sample.time * sample.code[c];
  }
  if (all_time <= 0) return;
  for (Sample& sample : samples_) sample.time /= all_time;
  for (size_t c = 0; c < kCodeRegions; c++) {
    if (met[c] <= 0) ticks_[c] = 0;
    all_ticks_ += ticks_[c];
  }
  if (all_ticks_ < kFewestTicks || samples_.size() < 2) return;
  fit();
}

// They are slopes of the likelihood's logarithm.
ClockFit::Slopes ClockFit::slopes() const {
  Slopes slopes{std::vector<double>(samples_.size(), 0), {}};
  std::vector<Shares> parts(samples_.size());
  Shares time{};
  double all = 0;
  Shares k;
  for (size_t c = 0; c < kCodeRegions; c++) k[c] = std::exp(region_logs_[c]);
  for (size_t s = 0; s < samples_.size(); s++) {
    double sum = 0;
    for (size_t c = 0; c < kCodeRegions; c++) sum += parts[s][c] = samples_[s].code[c] * k[c];
    const double stands_for = samples_[s].time * std::exp(factor_logs_[s]);
    for (size_t c = 0; c < kCodeRegions; c++) {
      parts[s][c] = sum > 0 ? stands_for * parts[s][c] / sum : 0;
      time[c] += parts[s][c];
      all += parts[s][c];
    }
  }
  Shares ratio{};  // ticks of a region over those that the time in it would have
  for (size_t c = 0; c < kCodeRegions; c++) ratio[c] = time[c] > 0 ? ticks_[c] / time[c] : 0;
  const double usual = all_ticks_ / all;
  for (size_t s = 0; s < samples_.size(); s++) {
    double stands_for = 0, said = 0;
    for (size_t c = 0; c < kCodeRegions; c++) {
      stands_for += parts[s][c];
      said += parts[s][c] * ratio[c];
    }
    if (stands_for <= 0) continue;
    slopes.of_samples[s] =
        said - stands_for * usual - factor_logs_[s] / (kSampleSpread * kSampleSpread);
    for (size_t c = 0; c < kCodeRegions; c++)
      slopes.of_regions[c] += parts[s][c] * (ratio[c] - said / stands_for);
  }
  for (size_t c = 0; c < kCodeRegions; c++)
    slopes.of_regions[c] -=
        2 * region_logs_[c] / (kRegionSpread * kRegionSpread + region_logs_[c] * region_logs_[c]);
  return slopes;
}

// Uphill, each logarithm by its slope over what bends it: about as many ticks as it has to do with.
void ClockFit::fit() {
  for (int step = 0; step < kSteps; step++) {
    const Slopes slope = slopes();
    for (size_t s = 0; s < samples_.size(); s++) {
      const double bend = samples_[s].time * std::exp(factor_logs_[s]) * all_ticks_ +
                          1 / (kSampleSpread * kSampleSpread);
      factor_logs_[s] += std::clamp(slope.of_samples[s] / bend / 2, -kMostOfAStep, kMostOfAStep);
    }
    for (size_t c = 0; c < kCodeRegions; c++) {
      const double bend = ticks_[c] + 1 / (kRegionSpread * kRegionSpread);
      region_logs_[c] += std::clamp(slope.of_regions[c] / bend / 2, -kMostOfAStep, kMostOfAStep);
    }
  }
  for (size_t s = 0; s < samples_.size(); s++) factors_[s] = std::exp(factor_logs_[s]);
}

}  // namespace shadowprof::collect
