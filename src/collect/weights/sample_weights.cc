// SPDX-License-Identifier: MIT
#include "collect/weights/sample_weights.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trace/record.h"

namespace shadowprof::collect {
namespace {

constexpr size_t kMoments = 256;
constexpr double kMostGaps = 4;

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

void SampleWeights::recorded(uint64_t number, uint64_t instructions, const trace::CodeShares& code,
                             const SampleSpeeds& speeds, SampleSeries::Drawn drawn) {
  series_[kind_of(number)].recorded(place_of(number), instructions, code, speeds, drawn);
}

// Where all samples are of one program; else there is one moment.
void SampleWeights::place_samples() {
  double begin = HUGE_VAL;
  double end = -HUGE_VAL;
  std::set<int64_t> programs;
  for (const SampleSeries& series : series_) {
    for (const SampleSeries::Sample& sample : series.samples()) {
      programs.insert(sample.program);
      begin = std::min(begin, sample.used);
      end = std::max(end, sample.used);
    }
  }
  there_.assign(programs.size() == 1 && end > begin ? kMoments : 1, {});
  for (size_t kind = 0; kind < series_.size(); kind++) {
    moments_[kind] = moments_of(kind, begin, end - begin);
    for (size_t i = 0; i < moments_[kind].size(); i++) {
      if (series_[kind].samples()[i].instructions == 0) continue;
      const auto [first, last] = moments_[kind][i];
      const auto moments = static_cast<double>(last - first + 1);
      for (size_t m = first; m <= last; m++) there_[m][kind] += 1 / moments;
    }
  }
}

std::vector<SampleWeights::Moments> SampleWeights::moments_of(size_t kind, double begin,
                                                              double length) const {
  const std::vector<SampleSeries::Sample>& samples = series_[kind].samples();
  const size_t size = there_.size();
  std::vector<Moments> moments(samples.size(), {0, size - 1});
  std::vector<size_t> order;
  for (size_t i = 0; i < samples.size(); i++)
    if (samples[i].instructions != 0) order.push_back(i);
  if (size == 1 || order.size() < 2) return moments;
  std::ranges::stable_sort(order, {}, [&](size_t i) { return samples[i].used; });
  std::vector<double> gaps;  // halves
  for (size_t k = 0; k + 1 < order.size(); k++)
    gaps.push_back((samples[order[k + 1]].used - samples[order[k]].used) / 2);
  std::vector<double> sorted = gaps;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  const double most = kMostGaps * *middle;
  const auto place = [&](double at) {
    const double part = std::clamp((at - begin) / length, 0.0, 1.0);
    return std::min(size - 1, static_cast<size_t>(part * static_cast<double>(size)));
  };
  for (size_t k = 0; k < order.size(); k++) {
    const double before = k == 0 ? gaps.front() : gaps[k - 1];
    const double after = k + 1 == order.size() ? gaps.back() : gaps[k];
    const double at = samples[order[k]].used;
    moments[order[k]] = {place(at - std::min(before, most)), place(at + std::min(after, most))};
  }
  return moments;
}

// Squared, where there are brief ones only.
double SampleWeights::replicas_off_elsewhere() const {
  const auto is_alone = [&](size_t moment) {
    return there_[moment][0] == 0 && there_[moment][1] != 0;
  };
  std::vector<double> alone(brief_ones().samples().size(), 0), all;
  double samples_alone = 0;
  for (size_t i = 0; i < alone.size(); i++) {
    const SampleSeries::Sample& sample = brief_ones().samples()[i];
    const auto [first, last] = moments_[1][i];
    if (sample.instructions == 0 || !is_alone((first + last) / 2)) continue;
    alone[i] = sample.weight * static_cast<double>(sample.instructions);
    samples_alone++;
  }
  if (samples_alone == 0 || replicas().size() == 0) return 0;
  for (const SampleSeries::Sample& sample : replicas().samples())
    all.push_back(sample.weight * static_cast<double>(sample.instructions));
  const double chance = replicas().chance() + brief_ones().chance() *
                                                  static_cast<double>(brief_ones().size()) /
                                                  samples_alone;
  const double apart = SampleSeries::distance(replicas().code(all), brief_ones().code(alone));
  return std::max(0.0, apart - chance);
}

// For one sample of each kind: the more the further the other kind is off. Replicas are off by
// more than by chance.
SampleWeights::Kinds SampleWeights::worth(double off) const {
  const Kinds chance{replicas().chance() + off, brief_ones().chance()};
  const bool are_few = std::min(replicas().size(), brief_ones().size()) < kFew;
  if (are_few || chance[0] + chance[1] < SampleSeries::kRounding) return {1, 1};
  return {chance[1] / static_cast<double>(replicas().size()),
          chance[0] / static_cast<double>(brief_ones().size())};
}

// What each kind is of what is said of a moment.
std::vector<SampleWeights::Kinds> SampleWeights::shares() const {
  const Kinds here = worth(0);
  const Kinds elsewhere = worth(replicas_off_elsewhere());
  const double everywhere =
      static_cast<double>(replicas().size()) / static_cast<double>(there_.size());
  std::vector<Kinds> shares;
  for (const Kinds& there : there_) {
    const bool are_extended = there[0] == 0 && there[1] != 0;
    const Kinds parts = are_extended ? Kinds{elsewhere[0] * everywhere, elsewhere[1] * there[1]}
                                     : Kinds{here[0] * there[0], here[1] * there[1]};
    const double sum = parts[0] + parts[1];
    if (sum != 0)
      shares.push_back({parts[0] / sum, parts[1] / sum});
    else
      shares.push_back({there[0] != 0 ? 1.0 : 0.0, there[0] == 0 && there[1] != 0 ? 1.0 : 0.0});
  }
  return shares;
}

// By its weight a sample counts as much as its kind says of the moments where it has samples; what
// the kind says of others is all samples' together.
std::vector<double> SampleWeights::amounts(size_t kind, const std::vector<Kinds>& shares) const {
  const SampleSeries& series = series_[kind];
  double moments = 0, elsewhere = 0;
  for (size_t m = 0; m < there_.size(); m++) {
    const bool is_there = there_[m][kind] != 0;
    moments += is_there;
    elsewhere += is_there ? 0 : shares[m][kind];
  }
  std::vector<double> amounts;
  for (size_t i = 0; i < series.samples().size(); i++) {
    const SampleSeries::Sample& sample = series.samples()[i];
    const auto [first, last] = moments_[kind][i];
    double share = 0;
    for (size_t m = first; m <= last; m++) share += shares[m][kind];
    share /= static_cast<double>(last - first + 1);
    const double part =
        series.instructions() == 0
            ? 0
            : sample.weight * static_cast<double>(sample.instructions) / series.instructions();
    amounts.push_back(part * (share * moments + elsewhere));
  }
  return amounts;
}

void SampleWeights::conclude(const ClockFit::Shares& ticks) {
  series_[0].conclude(ticks);
  series_[1].conclude(ticks, &series_[0]);
  place_samples();
  note_times();
  const std::vector<Kinds> shares_then = shares();
  std::array<std::vector<double>, 2> counts;
  Kinds counted{};
  for (size_t kind = 0; kind < series_.size(); kind++) {
    counts[kind] = amounts(kind, shares_then);
    for (const double count : counts[kind]) counted[kind] += count;
  }
  const double sum = counted[0] + counted[1];
  if (sum == 0) return;
  share_of_brief_ones_ = counted[1] / sum;
  const double all = replicas().instructions() + brief_ones().instructions();
  for (size_t kind = 0; kind < series_.size(); kind++) {
    SampleSeries& series = series_[kind];
    for (size_t i = 0; i < counts[kind].size(); i++) {
      const SampleSeries::Sample& sample = series.samples()[i];
      const double amount = sample.weight * static_cast<double>(sample.instructions);
      if (amount > 0) series.scale(i, counts[kind][i] * all / sum / amount);
    }
  }
}

void SampleWeights::note_times() {
  std::vector<Moment> moments;
  for (const SampleSeries& series : series_)
    for (const SampleSeries::Sample& sample : series.samples())
      if (sample.instructions != 0) moments.push_back({sample.program, sample.used});
  const std::vector<double> times = stands_for(moments);
  size_t k = 0;
  all_time_ = 0;
  for (size_t kind = 0; kind < series_.size(); kind++) {
    by_time_[kind].clear();
    for (const SampleSeries::Sample& sample : series_[kind].samples()) {
      const double time = sample.instructions != 0 ? times[k++] * sample.factor : 0;
      by_time_[kind].push_back(time);
      all_time_ += time;
    }
  }
}

double SampleWeights::by_time(uint64_t first, uint64_t last) const {
  if (all_time_ <= 0) return 1;
  const size_t kind = kind_of(first);
  const std::vector<SampleSeries::Sample>& samples = series_[kind].samples();
  const uint64_t end = std::min<uint64_t>(place_of(last), samples.size());
  double time = 0, amount = 0;
  for (uint64_t i = std::max<uint64_t>(place_of(first), 1) - 1; i < end; i++) {
    time += by_time_[kind][i];
    amount += samples[i].weight * static_cast<double>(samples[i].instructions);
  }
  const double all = replicas().instructions() + brief_ones().instructions();
  return amount > 0 ? time / all_time_ * all / amount : 1;
}

double SampleWeights::of(uint64_t first, uint64_t last) const {
  return series_[kind_of(first)].of(place_of(first), place_of(last));
}

}  // namespace shadowprof::collect
