// SPDX-License-Identifier: MIT
//
// Layout of the leaves: Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E.
#include "machine/cpu_model.h"

#include <array>
#include <cstring>
#include <string_view>

namespace shadowprof::machine {
namespace {

constexpr uint32_t bits(std::initializer_list<unsigned> numbers) {
  uint32_t word = 0;
  for (const unsigned n : numbers) word |= uint32_t{1} << n;
  return word;
}

constexpr uint32_t kHighestLeaf = 7;
constexpr uint32_t kHighestExtendedLeaf = 0x8000'0008;

// Family 6 and a model for which the C library has no preferences of its own.
constexpr uint32_t kSignature = 0x6f0;
constexpr uint32_t kFlushedLineBytes = 64;
// SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
constexpr uint32_t kFeaturesEcx = bits({0, 9, 13, 19, 20, 23});
// FPU, TSC, MSR, CMPXCHG8B, CMOV, CLFLUSH, MMX, FXSR, SSE, SSE2
constexpr uint32_t kFeaturesEdx = bits({0, 4, 5, 8, 15, 19, 23, 24, 25, 26});
// LAHF in 64-bit mode
constexpr uint32_t kExtendedEcx = bits({0});
// SYSCALL, NX, 64-bit mode
constexpr uint32_t kExtendedEdx = bits({11, 20, 29});
constexpr uint32_t kAddressBits = 48 | 48 << 8;  // physical, linear

constexpr std::string_view kBrand = "x86-64-v2 baseline";
constexpr size_t kBrandBytes = 48;
static_assert(kBrand.size() < kBrandBytes);

struct Cache {
  uint32_t type;  // 1 data, 2 instructions, 3 both
  uint32_t level;
  uint32_t ways;
  uint32_t bytes;
};
constexpr uint32_t kLineBytes = 64;
constexpr std::array<Cache, 4> kCaches = {{
    {1, 1, 8, 32 << 10},
    {2, 1, 8, 32 << 10},
    {3, 2, 8, 512 << 10},
    {3, 3, 16, 8 << 20},
}};

// Of leaf 4. Counts are stored less one.
CpuidAnswer cache(uint32_t number) {
  if (number >= kCaches.size()) return {};
  const Cache& c = kCaches[number];
  const uint32_t sets = c.bytes / (c.ways * kLineBytes);
  constexpr uint32_t kInitialisesItself = 1 << 8;
  return {c.type | c.level << 5 | kInitialisesItself, (c.ways - 1) << 22 | (kLineBytes - 1),
          sets - 1, 0};
}

// Of the three leaves that hold 16 characters each.
CpuidAnswer brand(uint32_t part) {
  std::array<char, kBrandBytes> text{};
  kBrand.copy(text.data(), kBrand.size());
  std::array<uint32_t, 4> words;
  std::memcpy(words.data(), text.data() + part * sizeof(words), sizeof(words));
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace

CpuidAnswer baseline_cpuid(uint32_t leaf, uint32_t subleaf) {
  switch (leaf) {
    case 0:
      return {kHighestLeaf, 0x756e6547, 0x6c65746e, 0x49656e69};  // "GenuineIntel"
    case 1:
      return {kSignature, 1 << 16 | (kFlushedLineBytes / 8) << 8, kFeaturesEcx, kFeaturesEdx};
    case 2:
      return {0x01, 0xff, 0, 0};  // caches: see leaf 4
    case 4:
      return cache(subleaf);
    case 0x8000'0000:
      return {kHighestExtendedLeaf, 0, 0, 0};
    case 0x8000'0001:
      return {0, 0, kExtendedEcx, kExtendedEdx};
    case 0x8000'0002:
    case 0x8000'0003:
    case 0x8000'0004:
      return brand(leaf - 0x8000'0002);
    case 0x8000'0006: {
      constexpr uint32_t kEightWays = 6;
      return {0, 0, (kCaches[2].bytes >> 10) << 16 | kEightWays << 12 | kLineBytes, 0};
    }
    case 0x8000'0008:
      return {kAddressBits, 0, 0, 0};
    default:
      return {};
  }
}

}  // namespace shadowprof::machine
