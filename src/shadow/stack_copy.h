// SPDX-License-Identifier: MIT
//
// A process's memory with a part of one stack as it was. A thread need not stand still until it is
// known who has called it: its stack is copied, which takes microseconds, and unwound when it runs
// again.
//
//   the mapping of its stack   [ ...             | copied: from the stack pointer on | unknown ]
//   everything else            as it is: code and its unwind tables do not change
#pragma once

#include <cstdint>
#include <vector>

#include "machine/memory_view.h"

namespace shadowprof::shadow {

class StackCopy : public machine::MemorySource {
 public:
  // `memory`: for as long as this is used. `stack`: the mapping that `pointer` points into.
  StackCopy(machine::MemorySource& memory, GuestAddr pointer, GuestRange stack);

  size_t read_some(GuestAddr from, std::span<uint8_t> out) override;

 private:
  machine::MemorySource& memory_;
  GuestRange stack_;
  GuestAddr start_;
  std::vector<uint8_t> bytes_;
};

}  // namespace shadowprof::shadow
