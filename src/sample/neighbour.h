// SPDX-License-Identifier: MIT
//
// A replica on an idle core is not free either: the cores of a processor share caches, power, and
// in many virtual machines the execution units themselves.
#pragma once

namespace shadowprof::sample {

// By what share a computation slows down on this host while another core computes: 0.1 is a tenth.
// Takes a few milliseconds, and up to so many times as long where it slows down. 0 where there is only
// one core: there it is not a question of neighbours.
double neighbour_cost(int tries = 4);

}  // namespace shadowprof::sample
