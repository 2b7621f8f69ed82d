// SPDX-License-Identifier: MIT
//
// Ticks by moment, thread and place. Memory is bounded: where there would be more slices of the
// time than kMostSlices, or more rows than kMostRows, slices become twice as long. When few are
// left new rows are left out, and counted.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "base/types.h"
#include "profile/tables/module_table.h"

namespace shadowprof::clock {

struct Spent {
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;

  Spent& operator+=(const Spent& other) {
    user_ns += other.user_ns;
    kernel_ns += other.kernel_ns;
    return *this;
  }
  void scale(double factor) {
    for (uint64_t* ns : {&user_ns, &kernel_ns})
      *ns = static_cast<uint64_t>(std::llround(factor * static_cast<double>(*ns)));
  }
};

class TimeCourse {
 public:
  static constexpr uint32_t kMostSlices = 240;
  static constexpr uint32_t kLeastSlices = 8;
  static constexpr size_t kMostRows = 1 << 17;
  static constexpr uint64_t kShortestSlice_us = 50'000;

  using Thread = std::pair<Tid, Tid>;  // process, thread
  struct Key {
    uint32_t slice;
    Thread thread;
    profile::CodeRef place;
    auto operator<=>(const Key&) const = default;
  };

  // Moments are of CLOCK_MONOTONIC; what was before the beginning belongs to it.
  explicit TimeCourse(uint64_t begun_ns) : begun_ns_(begun_ns) {}

  void add(uint64_t at_ns, Thread thread, profile::CodeRef place, const Spent& spent);
  void scale(Thread thread, double factor);
  uint64_t slice_us() const { return slice_us_; }
  const std::map<Key, Spent>& rows() const { return rows_; }
  uint64_t left_out() const { return left_out_; }  // ticks

 private:
  void double_slices();

  uint64_t begun_ns_;
  uint64_t slice_us_ = kShortestSlice_us;
  std::map<Key, Spent> rows_;
  uint64_t left_out_ = 0;
};

}  // namespace shadowprof::clock
