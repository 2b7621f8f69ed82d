// SPDX-License-Identifier: MIT
//
// What functions cost that call each other in a circle, where each call of one is taken to do the
// same as any other:
//
//   cost(f) = own(f) + sum over callees g of calls of g for each call of f * cost(g)
//
// and how many calls of f there are within a call of f, itself included. Both are one system of
// linear equations. Functions with few neighbours are eliminated one by one, the rest is inverted
// as a dense matrix; of the inverse only what the answers need is worked out.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace shadowprof::profile {

struct CircleCall {
  size_t caller;
  size_t callee;
  double for_each;  // call of the caller
};

struct CircleCosts {
  std::vector<double> of_call;
  std::vector<double> calls_within;
};

// `own` is by function. Nothing: there are too many of them, or no call comes from outside.
std::optional<CircleCosts> solve_call_circle(const std::vector<CircleCall>& calls,
                                             const std::vector<double>& own);

}  // namespace shadowprof::profile
