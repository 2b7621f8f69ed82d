// SPDX-License-Identifier: MIT
//
// What was decoded lately: fragments overlap, and each is decoded ahead of when it is looked for.
// Code that may change is never found again.
#pragma once

#include <cstdint>
#include <new>

#include "base/limits.h"
#include "base/zeroed_array.h"
#include "decoder/insn.h"

namespace shadowprof::emu {

class DecodedCode {
 public:
  // What find() and add() return stays where it is until so many others have been added.
  static constexpr size_t kStays = size_t{1} << 11;
  static_assert(
      kStays >= 4 * limits::kMaxFragmentBlocks * limits::kMaxBlockInsns,
      "a fragment's instructions stay until it is written, with what is looked at behind it");

  // Null: it was not decoded lately.
  const decoder::Insn* find(GuestAddr pc) const {
    const Known& known = index_[slot_of(pc)];
    if (known.pc != pc || known.number < first_ || known.number + kStays < next_) return nullptr;
    return &insns_[known.number % kInsns];
  }
  // decode() gives the instruction; it is found when keep() has been called next.
  template <typename Decode>
  const decoder::Insn& add(Decode decode) {
    return *new (&insns_[next_++ % kInsns]) decoder::Insn(decode());
  }
  // What was added last.
  void keep(const decoder::Insn& insn) {
    index_[slot_of(insn.address)] = {insn.address, next_ - 1};
  }
  void forget() { first_ = next_; }

 private:
  struct Known {
    GuestAddr pc;
    uint64_t number;  // of all that were added
  };
  static constexpr size_t kInsns = 2 * kStays;
  static constexpr size_t kIndex = 2 * kInsns;

  static size_t slot_of(GuestAddr pc) { return pc.value % kIndex; }

  ZeroedArray<decoder::Insn> insns_{kInsns};
  ZeroedArray<Known> index_{kIndex};
  uint64_t first_ = 1;  // those before are forgotten
  uint64_t next_ = 1;
};

}  // namespace shadowprof::emu
