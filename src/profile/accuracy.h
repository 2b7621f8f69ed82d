// SPDX-License-Identifier: MIT
//
// How close a sampled profile is to the perfect one of the same work. Code is matched by (build-id,
// or path where there is none; offset), so the runs may have had other address layouts. A measure
// is absent when either profile lacks what it compares.
#pragma once

#include <optional>

#include "profile/profile.h"

namespace shadowprof::profile {

struct Accuracy {
  // Wall's weight matching. The hottest twentieth of the perfect profile's distinct paths (at least
  // one), against as many hottest ones of the sampled: the perfect flow of those that are in both
  // lists, over that of the first list.
  std::optional<double> paths;
  // 1 - sum over edges of |relative frequency in one - in the other| / 2.
  std::optional<double> edges;
  // Mean over instructions that are in both, weighted by their executions in the perfect profile,
  // of the difference between the shares of the value that the perfect profile has as the top one.
  std::optional<double> diff_top;
  // Overlap of the hottest members that make up 90 % of the perfect profile: sum of the smaller of
  // both shares over sum of the perfect ones. Calls by count, methods by instructions of their own.
  std::optional<double> call_pairs;
  std::optional<double> methods;
  // Instructions that the sampled profile has seen, of those that the perfect run executed.
  std::optional<double> coverage;

  // Code that is in both was at other addresses: values that are addresses cannot agree.
  bool other_addresses = false;

  std::optional<double> values() const {
    return diff_top ? std::optional(1 - *diff_top) : std::nullopt;
  }
};

Accuracy accuracy_of(const Profile& perfect, const Profile& sampled);

}  // namespace shadowprof::profile
