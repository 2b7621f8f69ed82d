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
// they are worth: (sum of N_g)^2 / sum of N_g^2. Errors of profiles that are put together add up as
// those of independent observations.
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

// For two profiles that were put together.
Confidence added(const Confidence& a, const Confidence& b);

// The standard error of the sum of two independent counts.
inline uint64_t added_error(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return a + b;
  return static_cast<uint64_t>(
      std::llround(std::hypot(static_cast<double>(a), static_cast<double>(b))));
}

// Sums over groups, for one count.
class ErrorSum {
 public:
  void add(double in_group, double of_group, double groups = 1) {
    xx_ += groups * in_group * in_group;
    xn_ += groups * in_group * of_group;
  }
  // `groups_squared`: the sum of N_g^2; `share`: p.
  uint64_t error(uint32_t groups, double groups_squared, double share) const {
    if (groups < 2) return 0;
    const double residuals = xx_ - 2 * share * xn_ + share * share * groups_squared;
    const double factor = static_cast<double>(groups) / (groups - 1);
    return static_cast<uint64_t>(std::llround(std::sqrt(std::max(0.0, residuals) * factor)));
  }

 private:
  double xx_ = 0;
  double xn_ = 0;
};

}  // namespace shadowprof::profile
