// SPDX-License-Identifier: MIT
//
// How the share of a stream's hottest value differs between samples, or windows: each is one
// observation, however many values it has (profile/confidence.h). A value is followed from the
// first sample after which it is the hottest one. What it had until then is not known by samples,
// and is taken to be all together in samples that had nothing else, which makes the error larger
// rather than smaller.
//
// Where phases are rare, samples that have seen one are few, and their variance is too small more
// often than too large. So the sample that differs most counts once more: among many samples that
// are alike that changes nothing, and where one sample alone is of another kind it makes the error
// 1.4 times as large.
//
// Samples that agree do not say that the program does nothing else. Even odds that it does the same
// all the time or has another phase, of any length and at any time, are 1 to G + 1 for a phase that
// G samples have all missed. That is less than 5 % from 18 samples on. Of fewer samples the 95 %
// interval has to have room for it (missed_phase).
#pragma once

#include <cstdint>
#include <vector>

#include "profile/confidence.h"
#include "profile/hotlists/value_hotlist.h"

namespace shadowprof::collect {

class TopError {
 public:
  // A sample has ended: there are `count` values in all now.
  void sample_ended(const profile::ValueHotlist& hotlist, uint64_t count);
  // How many samples of one size those are worth.
  uint32_t samples() const { return sizes_.worth(); }
  // How many have had values, however few.
  uint32_t met() const { return met_; }
  // The standard error of the share of this value, of which `hotlist` is; at least what it were if
  // each value were an observation, and one more of another kind had come. 0 for fewer than two
  // samples.
  double error_of_share(uint64_t value, const profile::ValueHotlist& hotlist) const;

 private:
  static constexpr size_t kFollowed = 3;
  struct Sample {
    float x = 0;  // of the value,
    float n = 0;  // of all
    double off(double share) const {
      return static_cast<double>(x) - share * static_cast<double>(n);
    }
  };
  struct Followed {
    uint64_t value = 0;
    uint64_t seen = 0;
    double x = 0;
    profile::ErrorSum sum = {};
    Sample most = {};   // above the share, and
    Sample least = {};  // below
  };
  Followed earlier(uint64_t value, uint64_t seen) const;
  void follow(uint64_t value, uint64_t seen);
  void add(Followed& f, uint64_t seen, double values) const;

  profile::GroupSizes sizes_;
  uint64_t count_before_ = 0;
  uint32_t met_ = 0;
  std::vector<Followed> followed_;
};

// The share of a phase that so many samples have missed is not larger than this, with a probability
// of 95 % (see above).
double missed_phase(uint32_t samples);

// How much of a stream other values may have, with the same probability, if each of so many samples
// has had one value only, the same: each is one observation, of whatever size (rule of three).
double missed_values(uint32_t samples);

}  // namespace shadowprof::collect
