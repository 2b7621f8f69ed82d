// SPDX-License-Identifier: MIT
#include "collect/sample_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace shadowprof::collect {
namespace {

constexpr size_t kMostCodes = 1024;
constexpr double kRounding = 1e-9;  // what is not further apart (squared) is the same

}  // namespace

// Squared.
double SampleWeights::distance(const Shares& a, const Shares& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

uint64_t SampleWeights::taken(int64_t program, double used) {
  samples_.push_back({program, used});
  return samples_.size();
}

// Samples end in about the order in which they began.
void SampleWeights::recorded(uint64_t number, uint64_t instructions,
                             const trace::CodeShares& code) {
  if (number == 0 || number > samples_.size()) return;
  samples_[number - 1].instructions += instructions;
  if (instructions == 0 || number % one_of_ != 0) return;
  Code seen{number};
  for (size_t i = 0; i < code.size(); i++) {
    seen.shares[i] = static_cast<double>(code[i]) / static_cast<double>(instructions);
  }
  const auto after = [](uint64_t n, const Code& c) { return n < c.number; };
  codes_.insert(std::upper_bound(codes_.begin(), codes_.end(), number, after), seen);
  if (codes_.size() <= kMostCodes) return;
  one_of_ *= 2;
  std::erase_if(codes_, [&](const Code& c) { return c.number % one_of_ != 0; });
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

// b of the header's formula.
double SampleWeights::belief(const std::vector<double>& stands_for) const {
  double seconds = 0, instructions = 0;
  std::map<int64_t, std::vector<const Code*>> of_program;
  for (const Code& c : codes_) {
    const Sample& sample = samples_[c.number - 1];
    seconds += stands_for[c.number - 1];
    instructions += static_cast<double>(sample.instructions);
    of_program[sample.program].push_back(&c);
  }
  if (seconds == 0) return 0;
  Shares by_time{}, by_instructions{};
  for (const Code& c : codes_) {
    const double time = stands_for[c.number - 1] / seconds;
    const double part = static_cast<double>(samples_[c.number - 1].instructions) / instructions;
    for (size_t i = 0; i < c.shares.size(); i++) {
      by_time[i] += time * c.shares[i];
      by_instructions[i] += part * c.shares[i];
    }
  }
  // Half of the squared distance of two is the variance of one.
  double chance = 0;
  for (const auto& [program, own] : of_program) {
    for (size_t i = 0; i < own.size(); i++) {
      const double time = stands_for[own[i]->number - 1] / seconds;
      double variance = own.size() == 1 ? distance(own[i]->shares, by_time) : 0;
      const double near = i > 0 && i + 1 < own.size() ? 4 : 2;
      if (i > 0) variance += distance(own[i]->shares, own[i - 1]->shares) / near;
      if (i + 1 < own.size()) variance += distance(own[i]->shares, own[i + 1]->shares) / near;
      chance += time * time * variance;
    }
  }
  const double apart = distance(by_time, by_instructions);
  return apart > chance + kRounding ? 1 - chance / apart : 0;
}

void SampleWeights::conclude() {
  const std::vector<double> stands_for = times();
  believed_ = belief(stands_for);
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
    samples_[i].weight = std::pow(worth, believed_);
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
