// SPDX-License-Identifier: MIT
//
// Counts of (run, successor block) pairs: an open-addressing table that grows without bound. A slot
// is 16 bytes, so a lookup is one cache line nearly always; callers prefetch it. Slot numbers hold
// until reserve() says that they moved.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/spread.h"

namespace shadowprof::collect {

class PairTable {
 public:
  struct Slot {
    uint64_t key;  // 0: free
    uint64_t count;
  };

  PairTable() { resize(kInitialSlots); }

  static uint64_t key(uint32_t run, uint32_t block) {
    return (static_cast<uint64_t>(run) << 32 | block) + 1;
  }
  static uint32_t run_of(uint64_t key) { return static_cast<uint32_t>((key - 1) >> 32); }
  static uint32_t block_of(uint64_t key) { return static_cast<uint32_t>(key - 1); }

  void prefetch(uint64_t key) const { __builtin_prefetch(&slots_[home(key)], 1); }

  // The slot of `key`, made if there is none. Needs room: see reserve().
  uint32_t find(uint64_t key) {
    size_t i = home(key);
    while (slots_[i].key != key) {
      if (slots_[i].key == 0) {
        slots_[i].key = key;
        used_++;
        break;
      }
      i = (i + 1) & mask_;
    }
    return static_cast<uint32_t>(i);
  }
  void add(uint32_t slot, uint64_t n) { slots_[slot].count += n; }
  void add_inclusive(uint32_t slot, uint64_t insns) { inclusive_[slot] += insns; }

  // Makes room for `more` new keys. When slots had to move, the result tells where each old one is
  // now; else it is empty.
  std::vector<uint32_t> reserve(size_t more) {
    if ((used_ + more) * 2 <= slots_.size()) return {};
    std::vector<Slot> old_slots;
    std::vector<uint64_t> old_inclusive;
    old_slots.swap(slots_);
    old_inclusive.swap(inclusive_);
    resize(std::bit_ceil((used_ + more) * 4));
    used_ = 0;
    std::vector<uint32_t> moved(old_slots.size());
    for (size_t i = 0; i < old_slots.size(); i++) {
      if (old_slots[i].key == 0) continue;
      moved[i] = find(old_slots[i].key);
      slots_[moved[i]].count = old_slots[i].count;
      inclusive_[moved[i]] = old_inclusive[i];
    }
    return moved;
  }

  template <typename Each>
  void for_each(Each each) const {
    for (size_t i = 0; i < slots_.size(); i++)
      if (slots_[i].key != 0) each(slots_[i], inclusive_[i]);
  }
  template <typename Change>
  void change_each(Change change) {
    for (size_t i = 0; i < slots_.size(); i++)
      if (slots_[i].key != 0) change(slots_[i], inclusive_[i]);
  }

 private:
  static constexpr size_t kInitialSlots = size_t{1} << 14;

  void resize(size_t slots) {
    slots_.assign(slots, Slot{0, 0});
    inclusive_.assign(slots, 0);
    mask_ = slots - 1;
    shift_ = 64 - std::countr_zero(slots);
  }
  // The upper bits of the product depend on all bits of the key.
  size_t home(uint64_t key) const { return spread(key) >> shift_; }

  std::vector<Slot> slots_;
  std::vector<uint64_t> inclusive_;  // instructions, of calls; apart, for it is touched less
  size_t used_ = 0;
  size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace shadowprof::collect
