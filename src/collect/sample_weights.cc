// SPDX-License-Identifier: MIT
#include "collect/sample_weights.h"

#include <algorithm>

#include "trace/record.h"

namespace shadowprof::collect {
namespace {

size_t kind_of(uint64_t number) {
  return trace::is_brief(number) ? 1 : 0;
}

uint64_t place_of(uint64_t number) {
  return number & ~trace::kBriefSample;
}

double brief_share(const SampleSeries& replicas, const SampleSeries& brief) {
  if (replicas.size() == 0 || brief.size() == 0) return replicas.size() == 0 ? 1 : 0;
  double of_replicas = brief.chance();
  double of_brief = replicas.chance();
  const bool none_is_off = of_replicas + of_brief < SampleSeries::kRounding;
  if (none_is_off || std::min(replicas.size(), brief.size()) < SampleWeights::kFew) {
    of_replicas = static_cast<double>(replicas.size());
    of_brief = static_cast<double>(brief.size());
  }
  return of_brief / (of_replicas + of_brief);
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
                             const trace::CodeShares& code) {
  series_[kind_of(number)].recorded(place_of(number), instructions, code);
}

void SampleWeights::conclude() {
  for (SampleSeries& series : series_) series.conclude();
  share_of_brief_ones_ = brief_share(replicas(), brief_ones());
  const double all = replicas().instructions() + brief_ones().instructions();
  const double shares[] = {1 - share_of_brief_ones_, share_of_brief_ones_};
  for (size_t kind = 0; kind < series_.size(); kind++) {
    const double own = series_[kind].instructions();
    if (own != 0) scale_[kind] = shares[kind] * all / own;
  }
}

double SampleWeights::of(uint64_t first, uint64_t last) const {
  const size_t kind = kind_of(first);
  return scale_[kind] * series_[kind].of(place_of(first), place_of(last));
}

}  // namespace shadowprof::collect
