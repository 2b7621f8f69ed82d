// SPDX-License-Identifier: MIT
#include "collect/sample_weights.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trace/record.h"

namespace shadowprof::collect {
namespace {

constexpr size_t kMostPeriods = 64;
constexpr size_t kReplicasOfPeriod = 8;  // samples of them, at least in the mean

size_t kind_of(uint64_t number) {
  return trace::is_brief(number) ? 1 : 0;
}

uint64_t place_of(uint64_t number) {
  return number & ~trace::kBriefSample;
}

}  // namespace

uint64_t SampleWeights::taken(int64_t program, double used, bool brief) {
  return brief ? series_[1].taken(program, used) | trace::kBriefSample
               : series_[0].taken(program, used);
}

void SampleWeights::withdraw(uint64_t number) {
  series_[kind_of(number)].withdraw(place_of(number));
}

void SampleWeights::recorded(uint64_t number, uint64_t instructions,
                             const trace::CodeShares& code, double seconds) {
  series_[kind_of(number)].recorded(place_of(number), instructions, code, seconds);
}

// Where all samples are of one program; else there is one period.
void SampleWeights::divide() {
  begin_ = HUGE_VAL;
  double end = -HUGE_VAL;
  std::set<int64_t> programs;
  for (const SampleSeries& series : series_) {
    for (const SampleSeries::Sample& sample : series.samples()) {
      programs.insert(sample.program);
      begin_ = std::min(begin_, sample.used);
      end = std::max(end, sample.used);
    }
  }
  const size_t most = programs.size() == 1 && end > begin_ ? kMostPeriods : 1;
  periods_.resize(std::clamp<size_t>(replicas().size() / kReplicasOfPeriod, 1, most));
  length_ = (end - begin_) / static_cast<double>(periods_.size());
  for (size_t kind = 0; kind < series_.size(); kind++) {
    for (const SampleSeries::Sample& sample : series_[kind].samples()) {
      if (sample.instructions == 0) continue;
      Period& period = period_of(sample);
      period.samples[kind]++;
      period.instructions[kind] += sample.weight * static_cast<double>(sample.instructions);
    }
  }
}

SampleWeights::Period& SampleWeights::period_of(const SampleSeries::Sample& sample) {
  if (periods_.size() == 1) return periods_.front();
  const auto period = static_cast<size_t>((sample.used - begin_) / length_);
  return periods_[std::min(period, periods_.size() - 1)];
}

// Of one sample of each kind: the more the further the other kind is off.
SampleWeights::Kinds SampleWeights::worth() const {
  if (replicas().speeds_are() == SampleSeries::Speeds::told) return {1, 0};
  const Kinds chance{replicas().chance(), brief_ones().chance()};
  const bool are_few = std::min(replicas().size(), brief_ones().size()) < kFew;
  if (are_few || chance[0] + chance[1] < SampleSeries::kRounding) return {1, 1};
  return {chance[1] / static_cast<double>(replicas().size()),
          chance[0] / static_cast<double>(brief_ones().size())};
}

SampleWeights::Kinds SampleWeights::shares(const Period& period, const Kinds& worth) {
  const Kinds parts{worth[0] * period.samples[0], worth[1] * period.samples[1]};
  const double sum = parts[0] + parts[1];
  if (sum == 0) return {period.samples[0] != 0 ? 1.0 : 0.0, period.samples[0] != 0 ? 0.0 : 1.0};
  return {parts[0] / sum, parts[1] / sum};
}

// Of those that each kind has samples of: it says what the program did then, in proportion to the others.
SampleWeights::Kinds SampleWeights::periods_per_instruction() const {
  Kinds known{};
  for (size_t kind = 0; kind < series_.size(); kind++) {
    for (const Period& period : periods_) known[kind] += period.samples[kind] != 0;
    if (known[kind] != 0) known[kind] /= series_[kind].instructions();
  }
  return known;
}

void SampleWeights::conclude() {
  for (SampleSeries& series : series_) series.conclude();
  divide();
  const Kinds one = worth();
  const Kinds scale = periods_per_instruction();
  Kinds counted{};
  for (Period& period : periods_) {
    const Kinds share = shares(period, one);
    for (size_t kind = 0; kind < series_.size(); kind++) {
      period.factor[kind] = share[kind] * scale[kind];
      counted[kind] += period.factor[kind] * period.instructions[kind];
    }
  }
  const double sum = counted[0] + counted[1];
  if (sum == 0) return;
  share_of_brief_ones_ = counted[1] / sum;
  const double all = replicas().instructions() + brief_ones().instructions();
  for (size_t kind = 0; kind < series_.size(); kind++) {
    SampleSeries& series = series_[kind];
    for (size_t i = 0; i < series.samples().size(); i++)
      series.scale(i, period_of(series.samples()[i]).factor[kind] * all / sum);
  }
}

double SampleWeights::of(uint64_t first, uint64_t last) const {
  return series_[kind_of(first)].of(place_of(first), place_of(last));
}

}  // namespace shadowprof::collect
