// SPDX-License-Identifier: MIT
//
// What a program of some megabytes loses where another core works on as much memory of its own:
// cores share their last cache, and how much of it they have is no fact that a host tells. A loop
// changes words at random, and in every other period of some milliseconds a neighbour does so, too;
// a period with it is compared with the one before.
#pragma once

#include <optional>

namespace shadowprof::probe {

// By what share the loop is slower beside its neighbour: 0.1 is a tenth. Both work on 7 MB. Takes
// 70 milliseconds of two cores. Nothing: this process may use one core only, or somebody else used
// the second one.
std::optional<double> measure_cache_neighbour();

}  // namespace shadowprof::probe
