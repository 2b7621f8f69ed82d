// SPDX-License-Identifier: MIT
//
// Does a program write to the same pages again and again? Nobody sees what it writes while it is
// not forked, but bursts see some: where the last ones have written to no page that an earlier one
// had not, a fork will hardly make the program copy all of its memory. One that goes through an
// array, or to and fro in a table, writes to others each time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>

namespace shadowprof::sample {

class WrittenPages {
 public:
  void burst(std::span<const uint64_t> numbers) {
    const size_t known = numbers_.size();
    numbers_.insert(numbers.begin(), numbers.end());
    without_others_ = numbers_.size() == known ? without_others_ + 1 : 0;
    if (numbers_.size() > kMostPages) *this = WrittenPages();
  }
  bool are_the_same() const { return without_others_ >= kBursts; }

 private:
  static constexpr unsigned kBursts = 5;  // in a row
  static constexpr size_t kMostPages = 4096;

  std::unordered_set<uint64_t> numbers_;
  unsigned without_others_ = 0;
};

}  // namespace shadowprof::sample
