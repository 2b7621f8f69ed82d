// SPDX-License-Identifier: MIT
#include "clock/time_course.h"

#include <algorithm>

namespace shadowprof::clock {

void TimeCourse::add(uint64_t at_ns, Thread thread, profile::CodeRef place, const Spent& spent) {
  const uint64_t since_us = (at_ns - std::min(at_ns, begun_ns_)) / 1000;
  while (since_us / slice_us_ >= kMostSlices) double_slices();
  const Key key{static_cast<uint32_t>(since_us / slice_us_), thread, place};
  const auto found = rows_.find(key);
  if (found != rows_.end()) {
    found->second += spent;
    return;
  }
  if (rows_.size() >= kMostRows && key.slice >= kLeastSlices) {
    double_slices();
    return add(at_ns, thread, place, spent);
  }
  if (rows_.size() < kMostRows)
    rows_.emplace(key, spent);
  else
    left_out_++;
}

void TimeCourse::double_slices() {
  slice_us_ *= 2;
  std::map<Key, Spent> longer;
  for (const auto& [key, spent] : rows_) longer[{key.slice / 2, key.thread, key.place}] += spent;
  rows_ = std::move(longer);
}

void TimeCourse::scale(Thread thread, double factor) {
  for (auto& [key, spent] : rows_)
    if (key.thread == thread) spent.scale(factor);
}

}  // namespace shadowprof::clock
