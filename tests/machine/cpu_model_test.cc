// SPDX-License-Identifier: MIT
#include "machine/cpu_model.h"

#include <cpuid.h>
#include <doctest/doctest.h>

#include <cstring>
#include <string>

using shadowprof::machine::baseline_cpuid;
using shadowprof::machine::CpuidAnswer;

TEST_CASE("the baseline has x86-64-v2 and nothing of later levels") {
  const CpuidAnswer one = baseline_cpuid(1, 0);
  const CpuidAnswer extended = baseline_cpuid(0x80000001, 0);
  constexpr unsigned kV2 =
      bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT;
  CHECK((one.ecx & kV2) == kV2);
  CHECK((one.edx & (bit_CMOV | bit_CMPXCHG8B | bit_FXSAVE | bit_MMX | bit_SSE | bit_SSE2)) ==
        (bit_CMOV | bit_CMPXCHG8B | bit_FXSAVE | bit_MMX | bit_SSE | bit_SSE2));
  CHECK((extended.ecx & bit_LAHF_LM) != 0);
  CHECK((one.ecx & (bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_OSXSAVE | bit_XSAVE)) == 0);
  CHECK((extended.ecx & bit_ABM) == 0);
  CHECK(baseline_cpuid(7, 0) == CpuidAnswer{});
}

TEST_CASE("the host has what the baseline has") {
  for (const uint32_t leaf : {1u, 0x80000001u}) {
    CpuidAnswer host;
    REQUIRE(__get_cpuid(leaf, &host.eax, &host.ebx, &host.ecx, &host.edx) != 0);
    const CpuidAnswer baseline = baseline_cpuid(leaf, 0);
    CHECK((baseline.ecx & ~host.ecx) == 0);
    CHECK((baseline.edx & ~host.edx) == 0);
  }
}

TEST_CASE("what the baseline does not have is 0, beyond its last leaf too") {
  for (const uint32_t leaf : {3u, 5u, 6u, 11u, 13u, 0x40000000u, 0x80000005u, 0xffffffffu})
    CHECK(baseline_cpuid(leaf, 0) == CpuidAnswer{});
  CHECK(baseline_cpuid(4, 4) == CpuidAnswer{});
}

TEST_CASE("sizes of caches follow from ways, lines and sets") {
  const auto bytes = [](uint32_t number) {
    const CpuidAnswer c = baseline_cpuid(4, number);
    return ((c.ebx >> 22) + 1) * ((c.ebx & 0xfff) + 1) * (c.ecx + 1);
  };
  CHECK(bytes(0) == 32u << 10);
  CHECK(bytes(2) == 512u << 10);
  CHECK(bytes(3) == 8u << 20);
  CHECK((baseline_cpuid(0x80000006, 0).ecx >> 16) == 512);
}

TEST_CASE("the brand is text that ends") {
  std::string text;
  for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; leaf++) {
    const CpuidAnswer part = baseline_cpuid(leaf, 0);
    char bytes[sizeof part];
    std::memcpy(bytes, &part, sizeof part);
    text.append(bytes, sizeof part);
  }
  CHECK(std::string(text.c_str()) == "x86-64-v2 baseline");
}
