// SPDX-License-Identifier: MIT
//
// A replica on an idle core is not free either: the cores of a processor share caches, power, and
// in many virtual machines the execution units themselves.
//
// What others on the machine do only ever adds to the time that a piece of work takes, so the least
// of several times is the one to believe; and they may have the machine for as long as a second.
#pragma once

#include <optional>

#include "base/types.h"

namespace shadowprof::sample {

struct Neighbourhood {
  // By what share a computation slows down on this host while another core computes: 0.1 is a tenth.
  // 0 where there is only one core: there it is not a question of neighbours.
  double cost = 0;
  double alone = 0;  // seconds that a piece of work takes if none does; 0: not known
};

// Three milliseconds; others may have had the machine meanwhile.
Neighbourhood measure_neighbours();
// The same again, beside a program that runs: it loses what we lose, and does not stop for it. Takes this
// thread a millisecond or two. Nothing: it did not run, or there is no other core.
std::optional<double> cost_beside(Tid program, double alone);

}  // namespace shadowprof::sample
