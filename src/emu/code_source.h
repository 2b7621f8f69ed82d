// SPDX-License-Identifier: MIT
//
// Where the translator gets guest code from.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace shadowprof::emu {

struct CodeRegion {
  GuestRange range;          // empty: nothing executable is mapped there
  ModuleId module;
  bool may_change = false;   // can be written without a system call that we would see
};

class CodeSource {
 public:
  virtual ~CodeSource() = default;
  virtual CodeRegion region(GuestAddr address) = 0;
  // Reads up to out.size() bytes; returns how many could be read.
  virtual size_t fetch(GuestAddr address, std::span<uint8_t> out) = 0;
  // The same bytes where they are at hand, as many as there are: they stay until the next call.
  virtual std::span<const uint8_t> at_hand(GuestAddr) { return {}; }
};

}  // namespace shadowprof::emu
