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
};

}  // namespace shadowprof::emu
