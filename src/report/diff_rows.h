// SPDX-License-Identifier: MIT
//
// Which rows of a comparison are shown, and which of them may be there by chance: the same in text,
// JSON and on the page.
#pragma once

#include <cmath>
#include <vector>

#include "profile/compare/diff.h"
#include "profile/confidence.h"

namespace shadowprof::report {

inline bool differs(const profile::FunctionChange& c) {
  return c.self.delta() != 0 || c.invocations.delta() != 0 || c.loop_iterations.delta() != 0;
}

inline bool differs(const profile::InlinedChange& c) {
  return c.self.delta() != 0 || c.places.delta() != 0;
}

inline bool differs(const profile::LineChange& c) {
  return c.instructions.delta() != 0;
}

inline bool differs(const profile::ValueChange& c) {
  return c.effect() != 0;
}

inline bool differs(const profile::LoadChange& c) {
  return c.lost_cycles.delta() != 0;
}

template <typename Row>
bool differs(const Row& c) {
  return c.count.delta() != 0;
}

template <typename Row>
std::vector<const Row*> changed(const std::vector<Row>& all) {
  std::vector<const Row*> rows;
  for (const Row& row : all)
    if (differs(row)) rows.push_back(&row);
  return rows;
}

// Half-width of the 95 % interval of a difference with this standard error; infinite where a
// sampled profile does not know its errors.
inline double noise_of(const profile::Diff& diff, double error) {
  return diff.exact && error == 0 ? 0 : profile::critical_value(diff.error_groups()) * error;
}

// The difference is within that interval.
inline bool may_be_chance(const profile::Diff& diff, const profile::Change& c, double error) {
  return std::abs(static_cast<double>(c.delta())) < noise_of(diff, error);
}

}  // namespace shadowprof::report
