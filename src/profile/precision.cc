// SPDX-License-Identifier: MIT
#include "profile/precision.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "profile/evidence.h"
#include "profile/hotlists/hotlist_rows.h"

namespace shadowprof::profile {
namespace {

constexpr double kNs_per_s = 1e9;

uint64_t weight_of(const Function& f, bool by_time) {
  return by_time ? f.user_ns + f.kernel_ns : f.self;
}

std::vector<size_t> that_matter(const FunctionTable& functions, bool by_time) {
  const auto weight = [by_time](const Function& f) { return weight_of(f, by_time); };
  double left = 0;
  for (const Function& f : functions) left += static_cast<double>(weight(f));
  left *= kShareThatMatters;
  std::vector<size_t> first;
  for (const size_t i : hottest(functions, functions.size(), weight)) {
    if (left <= 0) break;
    left -= static_cast<double>(weight(functions[i]));
    first.push_back(i);
  }
  return first;
}

double time_error_of(const Profile& profile, const Function& f) {
  const double all_ns = kNs_per_s * profile.time.seconds();
  const auto ns = static_cast<double>(weight_of(f, true));
  return profile.time.error_of(all_ns > 0 ? ns / all_ns : 0);
}

}  // namespace

std::optional<Precision> precision_of(const Profile& profile) {
  if (!evidence_of(profile).enough) return std::nullopt;
  Precision precision;
  precision.by_time = profile.time.is_known();
  const std::vector<size_t> first = that_matter(profile.functions, precision.by_time);
  precision.functions = first.size();
  for (const size_t i : first) {
    const Function& f = profile.functions[i];
    const Margin margin = margin_of(profile, f.self_error, profile.coverage.attributed);
    if (!margin) return std::nullopt;
    precision.widest = std::max(precision.widest, *margin);
    if (precision.by_time) precision.widest = std::max(precision.widest, time_error_of(profile, f));
  }
  if (first.empty()) return std::nullopt;
  return precision;
}

}  // namespace shadowprof::profile
