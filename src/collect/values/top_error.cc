// SPDX-License-Identifier: MIT
#include "collect/values/top_error.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shadowprof::collect {

// What it had in the samples until now, by the header's assumption.
TopError::Followed TopError::earlier(uint64_t value, uint64_t seen) const {
  Followed f{value, seen};
  if (sizes_.all() == 0 || seen == 0) return f;
  const double size = sizes_.squared() / sizes_.all();
  f.x = std::min(static_cast<double>(seen), sizes_.all());
  f.sum.add(size, {size}, f.x / size);
  f.most = {static_cast<float>(size), static_cast<float>(size)};
  if (f.x < sizes_.all()) f.least = {0, static_cast<float>(size)};
  return f;
}

// The rarest of those that are followed goes.
void TopError::follow(uint64_t value, uint64_t seen) {
  const auto is_it = [value](const Followed& f) { return f.value == value; };
  if (std::any_of(followed_.begin(), followed_.end(), is_it)) return;
  if (followed_.size() == kFollowed) {
    const auto rarer = [](const Followed& a, const Followed& b) { return a.x < b.x; };
    followed_.erase(std::min_element(followed_.begin(), followed_.end(), rarer));
  }
  followed_.push_back(earlier(value, seen));
}

// Entries of a hotlist are thinned when it is full, so what was seen may fall.
void TopError::add(Followed& f, uint64_t seen, double values) const {
  const uint64_t before = std::exchange(f.seen, seen);
  const double x = std::min(static_cast<double>(seen - std::min(seen, before)), values);
  f.x += x;
  f.sum.add(x, {values});
  const Sample sample{static_cast<float>(x), static_cast<float>(values)};
  const double share = f.x / sizes_.all();
  if (sample.off(share) > f.most.off(share)) f.most = sample;
  if (sample.off(share) < f.least.off(share)) f.least = sample;
}

void TopError::sample_ended(const profile::ValueHotlist& hotlist, uint64_t count) {
  const uint64_t all = count - std::exchange(count_before_, count);
  if (all == 0) return;
  met_++;
  const profile::ValueCount top = hotlist.hottest();
  const auto values = static_cast<double>(all);
  // How much of a new one this sample has is not known: as much as there is room for.
  follow(top.value, top.count - std::min(top.count, all));
  sizes_.add({values});
  for (Followed& f : followed_) add(f, hotlist.seen(f.value), values);
}

double TopError::error_of_share(uint64_t value, const profile::ValueHotlist& hotlist) const {
  const uint32_t groups = samples();
  if (groups < 2) return 0;
  const auto known = std::find_if(followed_.begin(), followed_.end(),
                                  [value](const Followed& f) { return f.value == value; });
  const Followed f = known != followed_.end() ? *known : earlier(value, hotlist.seen(value));
  const double share = f.x / sizes_.all();
  const auto sampled = static_cast<double>(f.sum.error(groups, sizes_, share));
  const double once_more = std::max(f.most.off(share), -f.least.off(share));
  const double least = std::sqrt(std::max(share * (1 - share), 1 / sizes_.all()) / sizes_.all());
  return std::max(std::hypot(sampled, once_more) / sizes_.all(), least);
}

// W samples miss a phase of the share q with (1 - q)^W. So that there is one, and larger than q,
// has the probability (1 - q)^(W + 1) / (W + 2).
double missed_phase(uint32_t samples) {
  constexpr double kOdds = 1 - profile::kConfidenceLevel;
  const double w = samples;
  return std::max(0.0, 1 - std::pow(kOdds * (w + 2), 1 / (w + 1)));
}

double missed_values(uint32_t samples) {
  constexpr double kMissedCases = 3;
  return samples == 0 ? 1 : std::min(1.0, kMissedCases / samples);
}

}  // namespace shadowprof::collect
