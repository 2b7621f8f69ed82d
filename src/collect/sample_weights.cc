// SPDX-License-Identifier: MIT
#include "collect/sample_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace shadowprof::collect {

uint64_t SampleWeights::taken(int64_t program, double used) {
  samples_.push_back({program, used});
  return samples_.size();
}

void SampleWeights::recorded(uint64_t number, uint64_t instructions) {
  if (number == 0 || number > samples_.size()) return;
  samples_[number - 1].instructions += instructions;
}

// That each sample stands for. The first and the last of a program stand for as much on their outer
// side as on the other, for what was before and after is not known to have been profiled; the only
// one of a program for as much as the others do in the mean.
std::vector<double> SampleWeights::times() const {
  std::map<int64_t, std::vector<size_t>> of_program;
  for (size_t i = 0; i < samples_.size(); i++)
    if (samples_[i].instructions != 0) of_program[samples_[i].program].push_back(i);
  std::vector<double> times(samples_.size(), 0);
  double sum = 0;
  size_t with_others = 0;
  for (const auto& [program, own] : of_program) {
    if (own.size() == 1) continue;
    double before = samples_[own.front()].used;
    for (size_t i = 0; i + 1 < own.size(); i++) {
      const double half = std::max(0.0, samples_[own[i + 1]].used - samples_[own[i]].used) / 2;
      times[own[i]] = half + (i == 0 ? std::min(half, before) : before);
      before = half;
    }
    times[own.back()] = 2 * before;
    for (const size_t i : own) sum += times[i];
    with_others += own.size();
  }
  if (with_others == 0) return times;
  for (const auto& [program, own] : of_program)
    if (own.size() == 1) times[own.front()] = sum / static_cast<double>(with_others);
  return times;
}

void SampleWeights::conclude() {
  const std::vector<double> stands_for = times();
  double seconds = 0, instructions = 0;
  for (size_t i = 0; i < samples_.size(); i++) {
    seconds += stands_for[i];
    instructions += static_cast<double>(samples_[i].instructions);
  }
  if (seconds == 0) return;
  double weighted = 0;
  for (size_t i = 0; i < samples_.size(); i++) {
    const auto own = static_cast<double>(samples_[i].instructions);
    if (own == 0) continue;
    const double worth = stands_for[i] / own * (instructions / seconds);
    samples_[i].weight = std::clamp(std::pow(worth, kBelieved), 1 / kMost, kMost);
    weighted += samples_[i].weight * own;
  }
  if (weighted == 0) return;
  for (Sample& sample : samples_) sample.weight *= instructions / weighted;
}

double SampleWeights::of(uint64_t first, uint64_t last) const {
  double weighted = 0, instructions = 0;
  for (uint64_t number = std::max<uint64_t>(first, 1); number <= std::min<uint64_t>(last, samples_.size());
       number++) {
    const Sample& sample = samples_[number - 1];
    weighted += sample.weight * static_cast<double>(sample.instructions);
    instructions += static_cast<double>(sample.instructions);
  }
  return instructions == 0 ? 1 : weighted / instructions;
}

}  // namespace shadowprof::collect
