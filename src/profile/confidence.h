// SPDX-License-Identifier: MIT
//
// How far a sampled profile can be trusted. Instructions within a sample resemble one another, so a
// sample, and not an instruction, is one observation (cluster sampling). What has n of the N
// instructions (or edges, or paths) of all samples has the share p = n/N; with n_g and N_g of the
// g-th of G groups of samples, the standard error of n, as N is given, is
//
//   sqrt(G / (G - 1) * sum over g of (n_g - p N_g)^2)
//
// (Cochran, Sampling Techniques, 6.3: the ratio estimator). Tables carry this error of a count next
// to it. A group is one sample, or in long runs some that follow one another, which also takes care
// of samples that resemble their neighbours. Where groups differ in size, G is how many of one size
// they are worth: (sum of N_g)^2 / sum of N_g^2.
//
// That is the error by chance. Samples are not weighed by the time that they stand for alone, where
// that seems to make no difference (collect/weights/sample_series.h), and may be wrong by that:
// what a program does while samples are rare counts too little. If each group counted by its time,
// r_g times as much as it does, the share would be p' = sum of r_g n_g / sum of r_g N_g. It is
// right in the mean, so p' - p is how far p is off, or the chance in p'. Either is an error, and is
// added to the other one (squared). G is what the groups are worth by their time, if that is less.
//
// Errors of profiles that are put together add up as those of independent observations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shadowprof::profile {

struct Confidence {
  bool exact = false;   // every instruction was profiled: all errors are 0
  uint32_t groups = 0;  // of samples; 0: errors are not known
};

inline constexpr double kConfidenceLevel = 0.95;

// How many standard errors a figure is off at most, with probability `level`: Student's t
// distribution with groups - 1 degrees of freedom. Infinite for fewer than 2 groups.
double critical_value(uint32_t groups, double level = kConfidenceLevel);

// What no group has met, or each has met and nothing else, may be so far from 0, or from all: a
// share p is met by no group in (1 - p) ^ groups of all profiles, which is 1 - kConfidenceLevel.
double unseen_share(uint32_t groups);

// For two profiles that were put together.
Confidence added(const Confidence& a, const Confidence& b);

// The standard error of the sum of two independent counts.
inline uint64_t added_error(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return a + b;
  return static_cast<uint64_t>(
      std::llround(std::hypot(static_cast<double>(a), static_cast<double>(b))));
}

struct GroupSize {
  double counts = 0;   // N_g
  double by_time = 1;  // r_g
};

// All groups together.
class GroupSizes {
 public:
  void add(const GroupSize& group) {
    all_ += group.counts;
    squared_ += group.counts * group.counts;
    const double by_time = group.by_time * group.counts;
    all_by_time_ += by_time;
    squared_by_time_ += by_time * by_time;
  }
  double all() const { return all_; }
  double squared() const { return squared_; }
  double all_by_time() const { return all_by_time_; }
  // So many groups of one size (G).
  uint32_t worth() const {
    return std::min(worth(all_, squared_), worth(all_by_time_, squared_by_time_));
  }

 private:
  static uint32_t worth(double sum, double squares) {
    return squares == 0 ? 0 : static_cast<uint32_t>(sum * sum / squares * (1 + 1e-9));
  }

  double all_ = 0;
  double squared_ = 0;
  double all_by_time_ = 0;
  double squared_by_time_ = 0;
};

// A standard error that fewer groups tell than the profile has, by whose number intervals are made:
// so much larger that these are as wide as `groups` make them, where the profile has many.
double error_of_few(uint32_t groups, double error);

// Sums over groups, for one count.
class ErrorSum {
 public:
  void add(double in_group, const GroupSize& group, double groups = 1) {
    x_ += groups * in_group;
    x_by_time_ += groups * in_group * group.by_time;
    xx_ += groups * in_group * in_group;
    xn_ += groups * in_group * group.counts;
  }
  // `groups`: G; `share`: p.
  uint64_t error(uint32_t groups, const GroupSizes& sizes, double share) const {
    if (groups < 2) return 0;
    const double residuals = xx_ - 2 * share * xn_ + share * share * sizes.squared();
    const double factor = static_cast<double>(groups) / (groups - 1);
    const double off =
        sizes.all_by_time() > 0 ? x_by_time_ * sizes.all() / sizes.all_by_time() - x_ : 0;
    const double squared = std::max(0.0, residuals) * factor + off * off;
    return static_cast<uint64_t>(std::llround(std::sqrt(squared)));
  }

 private:
  double x_ = 0;
  double x_by_time_ = 0;
  double xx_ = 0;
  double xn_ = 0;
};

}  // namespace shadowprof::profile
