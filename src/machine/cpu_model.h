// SPDX-License-Identifier: MIT
//
// The processor that a program is told it runs on, where it must be the same one on every machine:
// the C library and others choose code by what cpuid says, and then counts depend on the host.
//
// The baseline has what the psABI calls x86-64-v2, which every processor since about 2009 has and
// the oldest that some distributions' loaders accept; fixed caches; one processor; and no XSAVE, so
// nobody asks xgetbv for more. It is a subset of the host: what a program finds here it may use.
#pragma once

#include <cstdint>

namespace shadowprof::machine {

struct CpuidAnswer {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  bool operator==(const CpuidAnswer&) const = default;
};

// What cpuid answers when eax and ecx are these. A leaf that the baseline does not have is 0.
CpuidAnswer baseline_cpuid(uint32_t leaf, uint32_t subleaf);

}  // namespace shadowprof::machine
