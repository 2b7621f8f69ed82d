// SPDX-License-Identifier: MIT
//
// How much each sample counts, of two kinds: replicas, and brief samples (trace/record.h), of which
// there are many with few instructions each. Each kind is weighed by itself (sample_series.h) and
// is a profile of the whole run; both are put together so that chance has the least to say in the
// sum:
//
//   share of a kind = 1 / how far it is off by chance    (squared; over the same of both)
//
// A program that does the same all the time is known from a few replicas, which have all of its
// code; one of whose code a replica has little, or that does something else each moment, from the
// brief samples. Of fewer than kFew samples it is not known how far they are off: kinds count by
// the number of their samples then. Brief samples do not say how fast the program is: each is taken
// for as fast as the replica's sample whose code is most alike.
//
// Either kind may say something of a part of the run only: a replica that lasts sees every tenth of
// a second, but not of what the program does after its end, and there are no brief samples while
// one lives. So the run is divided into moments. A sample is of those from half way to the one
// before of its kind to half way to the next, but no further than kMostGaps times what is usual for
// its kind. Of each moment the above is so by itself: a kind counts by how closely its samples are
// there. Where there are brief ones only, replicas count, too, but they are further off: by as much
// as these brief ones say something else than the replicas do, beyond chance.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collect/weights/sample_series.h"

namespace shadowprof::collect {

class SampleWeights {
 public:
  static constexpr size_t kFew = 3;

  // The next sample is of this program, which has used so many seconds of processor time. Returns
  // the sample's number, as its trace says it (trace::sample_start).
  uint64_t taken(int64_t program, double used, bool brief = false);
  // The last one of its kind was not taken after all.
  void withdraw(uint64_t number);
  // It has given so many instructions, of this code.
  void recorded(uint64_t number, uint64_t instructions, const trace::CodeShares& code,
                const SampleSpeeds& speeds = {},
                SampleSeries::Drawn drawn = SampleSeries::Drawn::by_time);
  // After the last one. As SampleSeries::conclude().
  void conclude(const ClockFit::Shares& ticks = {});

  // Samples `first` to `last` of one kind, taken together; 1 for numbers that were never given.
  double of(uint64_t first, uint64_t last) const;
  // How many times as much they would count by the time alone that each stands for, beside those of
  // both kinds: what is right in the mean, whatever the program does, and off by chance.
  double by_time(uint64_t first, uint64_t last) const;
  // Each kind, once it was concluded.
  const SampleSeries& replicas() const { return series_[0]; }
  const SampleSeries& brief_ones() const { return series_[1]; }
  double share_of_brief_ones() const { return share_of_brief_ones_; }
  // For the kind that most of the profile comes from.
  bool assume_speeds() const {
    const SampleSeries& most = series_[share_of_brief_ones_ > 0.5 ? 1 : 0];
    return most.speeds_are() == SampleSeries::Speeds::assumed;
  }

 private:
  using Kinds = std::array<double, 2>;
  // From the first to the last.
  struct Moments {
    size_t first = 0;
    size_t last = 0;
  };
  void place_samples();
  void note_times();
  std::vector<Moments> moments_of(size_t kind, double begin, double length) const;
  double replicas_off_elsewhere() const;
  Kinds worth(double off) const;
  std::vector<Kinds> shares() const;
  // What the samples of a kind count, all of one together.
  std::vector<double> amounts(size_t kind, const std::vector<Kinds>& shares) const;

  std::array<SampleSeries, 2> series_;
  std::array<std::vector<Moments>, 2> moments_;  // of each sample
  std::vector<Kinds> there_;                     // samples of each kind at a moment
  std::array<std::vector<double>, 2> by_time_;   // seconds that each sample counts
  double all_time_ = 0;
  double share_of_brief_ones_ = 0;
};

}  // namespace shadowprof::collect
