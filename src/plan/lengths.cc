// SPDX-License-Identifier: MIT
#include "plan/lengths.h"

#include <algorithm>
#include <bit>

namespace shadowprof::plan {

double Lengths::next_s(double now_s, uint64_t forks) {
  const double mean_gap_s = now_s / static_cast<double>(forks + 1);
  const double parts = mean_gap_s > 0 ? (now_s - stands_from_s_) / mean_gap_s : 1;
  stands_from_s_ = now_s;
  const double length_s = length_s_ * std::clamp(parts, 1 / kMostPartsRatio, kMostPartsRatio);
  return std::clamp(length_s, kSample_s, kGreatestLength_s);
}

// The length changes after the 1st, 2nd, 4th, 8th, ... sample: if it followed what samples cost
// just now, less would be seen of the parts of a program in which they are dear.
void Lengths::lived(const PastLife& life, const Prices& prices) {
  if (life.guest_s <= 0) return;
  const double dearer_s = std::max(0.0, prices.page_copied_s - prices.page_kept_s);
  recent_++;
  fixed_s_ += life.pause_s + life.copied_pages * prices.page_kept_s;
  growing_s_ += life.copied_pages * dearer_s + life.busy_core_s + life.input_log_s;
  guest_s_ += life.guest_s;
  lived_s_ += life.lifetime_s;
  if (!std::has_single_bit(++seen_)) return;
  const double fixed_s = fixed_s_ / recent_;
  double length_s = kGreatestLength_s;
  if (growing_s_ > 0)
    length_s = std::min(length_s, kGrowingShare * fixed_s * guest_s_ / growing_s_);
  // As many samples as the budget gives, and not fewer because each takes so long.
  const double gap_s = fixed_s / max_overhead_share_;
  if (lived_s_ > 0) length_s = std::min(length_s, load_ * gap_s * guest_s_ / lived_s_);
  length_s_ = std::max(length_s, kSample_s);
  for (double* sum : {&recent_, &fixed_s_, &growing_s_, &guest_s_, &lived_s_}) *sum /= 2;
}

}  // namespace shadowprof::plan
