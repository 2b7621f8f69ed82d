// SPDX-License-Identifier: MIT
//
// The hottest values of a stream, in constant space. Two kinds:
//
// counting sample (Gibbons and Matias, SIGMOD 1998). A value that is in the table is counted
// exactly
//   from then on. A value that is not is taken in with probability 1/threshold. When the table is
//   full the threshold rises, and every entry is thinned as if the higher one had held from the
//   start: its first occurrence is kept by a coin of old/new threshold, and each time the coin says
//   no, the next occurrence is asked with 1/new. So at any time the table is a sample that does not
//   depend on the order of the stream, and count + threshold - 1 is an unbiased estimate of how
//   often a value that is in it occurred, where those that are not count as 0. While no more
//   distinct values than entries have occurred, the threshold is 1 and all counts are exact.
//
// tnv (Calder, Feller, Eustace, MICRO 1997). New values enter while there is room; when there is
//   none, the half with the lower counts is thrown away. Kept to compare with published figures.
//   Its counts are lower bounds.
//
// Neither is safe for two threads. Most instructions see few values, so a table starts with room
// for two and doubles up to its capacity.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/spread.h"
#include "profile/random.h"

namespace shadowprof::profile {

struct ValueCount {
  uint64_t value = 0;
  uint64_t count = 0;
};

enum class HotlistKind : uint8_t { counting_sample, tnv };

struct Estimate {
  uint64_t count = 0;
  uint64_t error = 0;  // standard error; 0: it is exact
};

// How many distinct values `all` values have, of which `looked` were looked at, in windows, and
// `seen` were distinct. `new_share` is that of distinct values that were in one window only: as if
// what was not looked at brought new values at the same rate (the first-order jackknife of Haas,
// Naughton, Seshadri and Stokes, VLDB 1995, with a window as the unit).
Estimate distinct_in_all(Estimate seen, double new_share, uint64_t looked, uint64_t all);

class ValueHotlist {
 public:
  static constexpr uint32_t kDefaultCapacity = 16;
  static constexpr uint32_t kTnvCapacity = 50;
  static constexpr size_t kFollowed = 16;

  // Adds `n` occurrences that follow one another.
  void add(uint64_t value, uint64_t n, HotlistKind kind, uint32_t capacity, Random& random) {
    if (table_ != nullptr) {
      ValueCount& slot = table_[find(value)];
      if (slot.count != 0) {
        slot.count += n;
        return;
      }
    } else if (entries_ != 0 && slots_[0].value == value) {
      slots_[0].count += n;
      return;
    }
    add_slowly(value, n, kind, capacity, random);
  }

  // Most frequent first; ties by value. Of `occurrences` in all: estimates together do not exceed
  // them. A value that was seen less than `threshold` times since it was taken in cannot be told
  // from a rare one that was lucky: of such only what was seen counts.
  std::vector<ValueCount> top(uint64_t occurrences) const;
  // The one in the table that was seen most since it was taken in, and how often that was.
  ValueCount hottest() const;
  // That of any other; 0 if it is not in the table.
  uint64_t seen(uint64_t value) const;
  // The unbiased estimate.
  double estimate(uint64_t value) const;
  // How many distinct values there were: exact until the table first overflowed, then an estimate
  // with a standard error of about 13 % (64 registers of HyperLogLog, Flajolet et al. 2007).
  uint64_t distinct() const;
  // Both together.
  static Estimate distinct(const ValueHotlist& a, const ValueHotlist& b);

  // For a list of values that were seen in windows of a longer stream only: follows in how many
  // windows values occur.
  void follow_windows() { follows_windows_ = true; }
  void end_window() {
    if (sketch_ != nullptr) sketch_->window++;
  }
  // Share of values that were seen in one window only, as far as there were two. What has not been
  // seen is estimated from it (distinct_in_all). 0: all values are known.
  double new_share() const;
  bool exact() const { return sketch_ == nullptr; }
  // Standard error of the count of a value that is in the table: of what it lost while it was
  // absent.
  double count_error() const;
  double threshold() const { return threshold_; }
  uint32_t size() const { return entries_; }

 private:
  static constexpr uint32_t kInline = 2;
  static constexpr size_t kRegisters = 64;
  // A value whose hash is among the lowest, so each distinct value has the same chance.
  struct Followed {
    uint64_t hash = 0;
    uint32_t windows = 0;
    uint32_t last = 0;
  };
  struct Sketch {
    uint8_t registers[kRegisters] = {};
    uint32_t window = 1;
    std::vector<Followed> followed = {};  // by hash
    void add(uint64_t hash);
    void follow(uint64_t hash);
    uint64_t estimate() const;
  };
  void note_distinct(uint64_t value) {
    const uint64_t h = hash(value);
    sketch_->add(h);
    if (follows_windows_) sketch_->follow(h);
  }

  static uint64_t hash(uint64_t value) {
    uint64_t z = spread(value ^ value >> 32);
    z = (z ^ z >> 29) * 0xBF58476D1CE4E5B9ull;
    return z ^ z >> 32;
  }
  // Index of the value, or of the free slot where it belongs.
  uint32_t find(uint64_t value) const {
    uint32_t i = static_cast<uint32_t>(spread(value) >> 32) & (table_slots_ - 1);
    while (table_[i].count != 0 && table_[i].value != value) i = (i + 1) & (table_slots_ - 1);
    return i;
  }
  void add_slowly(uint64_t value, uint64_t n, HotlistKind kind, uint32_t capacity, Random& random);
  void insert(uint64_t value, uint64_t count);
  void rebuild(uint32_t slots, const std::vector<ValueCount>& keep);
  std::vector<ValueCount> all() const;
  void overflow();
  void thin(Random& random);
  void flush_lower_half();

  // Up to kInline entries one after the other; beyond that an open-addressing table that is at
  // most half full. count 0: free.
  ValueCount slots_[kInline] = {};
  std::unique_ptr<ValueCount[]> table_;
  std::unique_ptr<Sketch> sketch_;
  uint32_t entries_ = 0;
  uint32_t table_slots_ = 0;
  bool follows_windows_ = false;
  double threshold_ = 1;
  uint64_t skip_ = 0;  // occurrences of absent values to be refused before one is taken in
};

}  // namespace shadowprof::profile
