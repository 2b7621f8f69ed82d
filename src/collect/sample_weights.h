// SPDX-License-Identifier: MIT
//
// How much each sample counts, of two kinds: replicas, and brief samples (trace/record.h), of which
// there are many with few instructions each. Each kind is weighed by itself (sample_series.h) and is
// a profile of the whole run; both are put together so that chance has the least to say in the sum:
//
//   share of a kind = 1 / how far it is off by chance    (squared; over the same of both)
//
// A program that does the same all the time is known from a few replicas, which have all of its code;
// one of whose code a replica has little, or that does something else each moment, from the brief
// samples. Of fewer than kFew samples it is not known how far they are off: kinds count by the number
// of their samples then. Brief samples do not say how fast the program is: where replicas do, and it
// matters, brief ones count only where there are no others.
//
// Replicas may say something of a part of the run only: one that lasts sees every tenth of a second, but
// not of what the program does after its end. So a run with many of them is divided into equal
// periods. Of each the above is so by itself: a kind counts by its samples in the period.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collect/sample_series.h"

namespace shadowprof::collect {

class SampleWeights {
 public:
  static constexpr size_t kFew = 3;

  // The next sample is of this program, which has used so many seconds of processor time. Returns
  // the sample's number, as its trace says it (trace::sample_start).
  uint64_t taken(int64_t program, double used, bool brief = false);
  // The last one of its kind was not taken after all.
  void withdraw(uint64_t number);
  // It has given so many instructions, of this code, in so many seconds of the program's (0: not known).
  void recorded(uint64_t number, uint64_t instructions, const trace::CodeShares& code,
                double seconds = 0);
  // After the last one.
  void conclude();

  // Of the samples `first` to `last` of one kind, taken together; 1 for numbers that were never given.
  double of(uint64_t first, uint64_t last) const;
  // Each kind, once it was concluded.
  const SampleSeries& replicas() const { return series_[0]; }
  const SampleSeries& brief_ones() const { return series_[1]; }
  double share_of_brief_ones() const { return share_of_brief_ones_; }
  // Of the kind that most of the profile comes from.
  bool assume_speeds() const {
    const SampleSeries& most = series_[share_of_brief_ones_ > 0.5 ? 1 : 0];
    return most.speeds_are() == SampleSeries::Speeds::assumed;
  }

 private:
  using Kinds = std::array<double, 2>;
  // What there is of each kind in one period of the run.
  struct Period {
    Kinds samples{};
    Kinds instructions{};  // as they are weighed
    Kinds factor{};        // of each of them
  };
  void divide();
  Period& period_of(const SampleSeries::Sample& sample);
  Kinds worth() const;
  static Kinds shares(const Period& period, const Kinds& worth);
  Kinds periods_per_instruction() const;

  std::array<SampleSeries, 2> series_;
  std::vector<Period> periods_;
  double begin_ = 0;   // of the first
  double length_ = 0;  // of each
  double share_of_brief_ones_ = 0;
};

}  // namespace shadowprof::collect
