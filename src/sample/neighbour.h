// SPDX-License-Identifier: MIT
//
// A replica on an idle core is not free either: the cores of a processor share caches, power, and
// in many virtual machines the execution units themselves.
#pragma once

namespace shadowprof::sample {

struct NeighbourLook {
  int rounds = 9;  // of a millisecond or two
  int tries = 4;   // at most, where it slows down
};
// By what share a computation slows down on this host while another core computes: 0.1 is a tenth.
// 0 where there is only one core: there it is not a question of neighbours.
double neighbour_cost(const NeighbourLook& look = {});

}  // namespace shadowprof::sample
