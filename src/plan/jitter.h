// SPDX-License-Identifier: MIT
//
// Moments and lengths are drawn at random around what is wanted, so that nothing periodic in a
// program is seen always or never.
#pragma once

#include <random>

namespace shadowprof::plan {

using Random = std::mt19937_64;

// A factor, 1 in the mean.
inline double jitter(Random& random) {
  return std::uniform_real_distribution<double>(0.5, 1.5)(random);
}

}  // namespace shadowprof::plan
