// SPDX-License-Identifier: MIT
//
// What is known of guest addresses: a hash table from GuestAddr to Row. Rows are made and changed,
// never removed one by one; making one may move the others. An open-addressing table, because
// translation looks up several addresses for each exit, and nodes of their own would be most of
// what that costs.
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "base/spread.h"
#include "base/types.h"

namespace shadowprof::emu {

template <typename Row>
class AddressTable {
 public:
  Row* find(GuestAddr address) {
    Slot& slot = slots_[index_of(address)];
    return slot.used ? &slot.row : nullptr;
  }
  const Row* find(GuestAddr address) const {
    const Slot& slot = slots_[index_of(address)];
    return slot.used ? &slot.row : nullptr;
  }
  // Made with Row() if there is none.
  Row& at(GuestAddr address) {
    size_t i = index_of(address);
    if (!slots_[i].used) {
      if (2 * ++used_ > slots_.size()) {
        grow();
        i = index_of(address);
      }
      slots_[i].used = true;
      slots_[i].address = address;
    }
    return slots_[i].row;
  }
  // It will be looked for soon.
  void expect(GuestAddr address) const { __builtin_prefetch(&slots_[first_of(address)]); }
  void clear() { *this = AddressTable(); }

 private:
  struct Slot {
    GuestAddr address;
    Row row{};
    bool used = false;
  };

  // Where it is, or the free slot where it belongs.
  size_t index_of(GuestAddr address) const {
    size_t i = first_of(address);
    while (slots_[i].used && slots_[i].address != address) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  size_t first_of(GuestAddr address) const {
    const int shift = 64 - std::countr_zero(slots_.size());
    return spread(address.value) >> shift;
  }
  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (slot.used) slots_[index_of(slot.address)] = slot;
    }
  }

  static constexpr size_t kFirstSlots = 1024;
  std::vector<Slot> slots_ = std::vector<Slot>(kFirstSlots);
  size_t used_ = 0;
};

}  // namespace shadowprof::emu
