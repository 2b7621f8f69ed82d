// SPDX-License-Identifier: MIT
#include "machine/cpu_model.h"

#include <cpuid.h>
#include <doctest/doctest.h>

#include <cstring>
#include <string>

using shadowprof::machine::CpuidAnswer;
using shadowprof::machine::CpuModel;

namespace {

const CpuModel& model(const char* name) {
  const CpuModel* found = CpuModel::find(name);
  REQUIRE(found != nullptr);
  return *found;
}

CpuidAnswer baseline_cpuid(uint32_t leaf, uint32_t subleaf) {
  return model("baseline").cpuid(leaf, subleaf, {1, 2, 3, 4});
}

CpuidAnswer host_cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidAnswer host;
  if (__get_cpuid_count(leaf, subleaf, &host.eax, &host.ebx, &host.ecx, &host.edx) == 0) return {};
  return host;
}

constexpr const char* kModels[] = {"baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

}  // namespace

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

TEST_CASE("levels have what the psABI lists for them") {
  const CpuModel &v3 = model("x86-64-v3"), &v4 = model("x86-64-v4");
  constexpr unsigned kV3 = bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_XSAVE;
  constexpr unsigned kV3Leaf7 = bit_AVX2 | bit_BMI | bit_BMI2;
  constexpr unsigned kV4Leaf7 =
      bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  CHECK((v3.cpuid(1, 0, {}).ecx & kV3) == kV3);
  CHECK((v3.cpuid(0x80000001, 0, {}).ecx & bit_LZCNT) != 0);
  CHECK(v3.cpuid(7, 0, {}).ebx == kV3Leaf7);
  CHECK(v4.cpuid(7, 0, {}).ebx == (kV3Leaf7 | kV4Leaf7));
  CHECK(v3.cpuid(7, 1, {}) == CpuidAnswer{});
  CHECK(v3.enabled_state() == 0x7);
  CHECK(v4.enabled_state() == 0xe7);
  CHECK(model("x86-64-v2").cpuid(1, 0, {}) == baseline_cpuid(1, 0));
}

TEST_CASE("no model has random numbers, another core than the first, or XSAVEC") {
  constexpr CpuidAnswer kAll = {~0u, ~0u, ~0u, ~0u};
  for (const char* name : {"baseline", "x86-64-v3", "x86-64-v4", "host"}) {
    CAPTURE(name);
    CHECK((model(name).cpuid(1, 0, kAll).ecx & bit_RDRND) == 0);
    CHECK((model(name).cpuid(7, 0, kAll).ebx & bit_RDSEED) == 0);
    CHECK((model(name).cpuid(1, 0, kAll).ebx >> 24) == 0);
    CHECK(model(name).cpuid(0xb, 0, kAll).edx == 0);
  }
  for (const char* name : kModels) CHECK(model(name).cpuid(0xd, 1, kAll) == CpuidAnswer{});
}

TEST_CASE("the area for the state is never told smaller than the host's") {
  const CpuModel& v3 = model("x86-64-v3");
  CHECK(v3.cpuid(0xd, 0, {0x7, 832, 832, 0}) == v3.cpuid(0xd, 0, {0xe7, 2696, 2696, 0}));
  CHECK(v3.cpuid(0xd, 0, {0x600e7, 11008, 11008, 0}).ebx == 11008);
  const CpuidAnswer upper_halves = {256, 576, 0, 0};
  CHECK(v3.cpuid(0xd, 2, upper_halves) == upper_halves);
  CHECK(v3.cpuid(0xd, 5, upper_halves) == CpuidAnswer{});
}

TEST_CASE("a model's topology is one thread of one core") {
  const CpuModel& v4 = model("x86-64-v4");
  CHECK(v4.cpuid(0xb, 0, {}) == CpuidAnswer{0, 1, 0x100, 0});
  CHECK(v4.cpuid(0xb, 1, {}) == CpuidAnswer{0, 1, 0x201, 0});
  CHECK((v4.cpuid(0xb, 2, {}).ecx >> 8) == 0);
}

TEST_CASE("a level's processor is the same whatever the host's is") {
  constexpr CpuidAnswer kHosts[] = {{},
                                    {~0u, ~0u, ~0u, ~0u},
                                    {0x55555555, 0xaaaaaaaa, 0x33333333, 0x0f0f0f0f},
                                    {0xaaaaaaaa, 0x55555555, 0xcccccccc, 0xf0f0f0f0}};
  constexpr uint32_t kFirstLeaves[] = {0, 0x40000000, 0x80000000};
  constexpr uint32_t kStateLeaf = 0xd, kLeaves = 0x30, kSubleaves = 6;
  for (const char* name : {"baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    for (const uint32_t first : kFirstLeaves) {
      for (uint32_t leaf = first; leaf < first + kLeaves; leaf++) {
        if (leaf == kStateLeaf) continue;
        for (uint32_t subleaf = 0; subleaf < kSubleaves; subleaf++)
          for (const CpuidAnswer& host : kHosts)
            CHECK(model(name).cpuid(leaf, subleaf, host) == model(name).cpuid(leaf, subleaf, {}));
      }
    }
  }
}

TEST_CASE("a model is refused where the host lacks something, by its name") {
  CHECK(model("baseline").missing_here().empty());
  CHECK(model("host").missing_here().empty());
  const std::string missing = model("x86-64-v4").missing_here();
  const bool has_vl = (host_cpuid(7, 0).ebx & bit_AVX512VL) != 0;
  CHECK((missing.find("avx512vl") == std::string::npos) == has_vl);
  CHECK(CpuModel::find("x86-64-v9") == nullptr);
}

TEST_CASE("the host is what it is, but for what varies") {
  const CpuModel& host = CpuModel::host();
  CHECK(host.hwcap() == 0);
  CHECK(host.enabled_state() == 0);
  const CpuidAnswer caches = {1, 2, 3, 4};
  CHECK(host.cpuid(4, 0, caches) == caches);
  CHECK(host.description().find("processor\t: 0\n") == 0);
  CHECK(host.description().find(" rdrand") == std::string::npos);
}
