// SPDX-License-Identifier: MIT
#include "profile/confidence.h"

#include <limits>

namespace shadowprof::profile {
namespace {

// The normal distribution's: what |x| does not exceed with probability `level`.
double normal_quantile(double level) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 60; i++) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) > 1 - level ? low : high) = middle;
  }
  return low;
}

}  // namespace

// Beyond ten degrees of freedom or so Fisher's expansion is right to some thousandths; below that
// it is too low in the far tail, where Hill (CACM 13, algorithm 396) has exact formulas for two.
double critical_value(uint32_t groups, double level) {
  if (groups < 2) return std::numeric_limits<double>::infinity();
  const double v = groups - 1;
  const double tail = 1 - level;
  if (groups == 2) return 1 / std::tan(tail * M_PI / 2);
  if (groups == 3) return std::sqrt(2 / (tail * (2 - tail)) - 2);
  const double z = normal_quantile(level);
  const double zz = z * z;
  return z * (1 + (zz + 1) / (4 * v) + ((5 * zz + 16) * zz + 3) / (96 * v * v) +
              (((3 * zz + 19) * zz + 17) * zz - 15) / (384 * v * v * v));
}

double unseen_share(uint32_t groups) {
  return groups == 0 ? 1 : 1 - std::pow(1 - kConfidenceLevel, 1 / static_cast<double>(groups));
}

double error_of_few(uint32_t groups, double error) {
  constexpr double kOfMany = 1.96;
  return groups < 2 ? error : error * critical_value(groups) / kOfMany;
}

// Degrees of freedom add up. What has none makes the sum unknown, unless it is exact.
Confidence added(const Confidence& a, const Confidence& b) {
  if (a.exact && b.exact) return {true, 0};
  if (a.exact) return {false, b.groups};
  if (b.exact) return {false, a.groups};
  if (a.groups == 0 || b.groups == 0) return {false, 0};
  return {false, a.groups + b.groups - 1};
}

}  // namespace shadowprof::profile
