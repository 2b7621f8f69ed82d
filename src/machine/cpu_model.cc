// SPDX-License-Identifier: MIT
//
// Layout of the leaves: Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E.
#include "machine/cpu_model.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

namespace shadowprof::machine {
namespace {

struct Feature {
  FeatureWord word;
  unsigned bit;
  unsigned level;  // the first one of the psABI's that has it
  std::string_view name;
};

using enum FeatureWord;
constexpr Feature kFeatures[] = {
    {leaf1_edx, 0, 1, "fpu"},         {leaf1_edx, 4, 1, "tsc"},
    {leaf1_edx, 5, 1, "msr"},         {leaf1_edx, 8, 1, "cx8"},
    {leaf1_edx, 15, 1, "cmov"},       {leaf1_edx, 19, 1, "clflush"},
    {leaf1_edx, 23, 1, "mmx"},        {leaf1_edx, 24, 1, "fxsr"},
    {leaf1_edx, 25, 1, "sse"},        {leaf1_edx, 26, 1, "sse2"},
    {extended_edx, 11, 1, "syscall"}, {extended_edx, 20, 1, "nx"},
    {extended_edx, 29, 1, "lm"},      {leaf1_ecx, 0, 2, "pni"},
    {leaf1_ecx, 9, 2, "ssse3"},       {leaf1_ecx, 13, 2, "cx16"},
    {leaf1_ecx, 19, 2, "sse4_1"},     {leaf1_ecx, 20, 2, "sse4_2"},
    {leaf1_ecx, 23, 2, "popcnt"},     {extended_ecx, 0, 2, "lahf_lm"},
    {leaf1_ecx, 12, 3, "fma"},        {leaf1_ecx, 22, 3, "movbe"},
    {leaf1_ecx, 26, 3, "xsave"},      {leaf1_ecx, 27, 3, "osxsave"},
    {leaf1_ecx, 28, 3, "avx"},        {leaf1_ecx, 29, 3, "f16c"},
    {extended_ecx, 5, 3, "abm"},      {leaf7_ebx, 3, 3, "bmi1"},
    {leaf7_ebx, 5, 3, "avx2"},        {leaf7_ebx, 8, 3, "bmi2"},
    {leaf7_ebx, 16, 4, "avx512f"},    {leaf7_ebx, 17, 4, "avx512dq"},
    {leaf7_ebx, 28, 4, "avx512cd"},   {leaf7_ebx, 30, 4, "avx512bw"},
    {leaf7_ebx, 31, 4, "avx512vl"},
};

constexpr FeatureSet features_of_level(unsigned level) {
  FeatureSet set;
  for (const Feature& f : kFeatures) {
    if (f.level <= level) set.words[static_cast<unsigned>(f.word)] |= uint32_t{1} << f.bit;
  }
  return set;
}

// Bits of XCR0.
constexpr uint64_t kAvxState = 0x7;      // x87, SSE, upper halves of ymm
constexpr uint64_t kAvx512State = 0xe7;  // and masks, upper halves of zmm, zmm16 and on
// Behind all that AVX-512 and protection keys have, in Intel's order and in AMD's.
constexpr uint32_t kStateAreaBytes = 2752;

constexpr CpuModel kModels[] = {
    {"baseline", 2, "x86-64-v2 baseline", features_of_level(2), 0},
    {"x86-64-v2", 2, "x86-64-v2 baseline", features_of_level(2), 0},
    {"x86-64-v3", 3, "x86-64-v3", features_of_level(3), kAvxState},
    {"x86-64-v4", 4, "x86-64-v4", features_of_level(4), kAvx512State},
    {"host", 0, "", {}, 0},
};

constexpr uint32_t kHighestExtendedLeaf = 0x8000'0008;

// Family 6 and a model for which the C library has no preferences of its own.
constexpr uint32_t kSignature = 0x6f0;
constexpr uint32_t kFlushedLineBytes = 64;
constexpr uint32_t kAddressBits = 48 | 48 << 8;  // physical, linear

constexpr size_t kBrandBytes = 48;

// What differs from core to core, or is random.
constexpr uint32_t kRdrand = 1u << 30;  // leaf 1, ecx
constexpr uint32_t kRdseed = 1u << 18;  // leaf 7, ebx
constexpr uint32_t kRdpid = 1u << 22;   // leaf 7, ecx

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

// Leaf 4. Counts are stored less one.
CpuidAnswer cache(uint32_t number) {
  if (number >= kCaches.size()) return {};
  const Cache& c = kCaches[number];
  const uint32_t sets = c.bytes / (c.ways * kLineBytes);
  constexpr uint32_t kInitialisesItself = 1 << 8;
  return {c.type | c.level << 5 | kInitialisesItself, (c.ways - 1) << 22 | (kLineBytes - 1),
          sets - 1, 0};
}

// Leaf 0xb: one thread in one core.
CpuidAnswer topology(uint32_t level) {
  constexpr uint32_t kThread = 1, kCore = 2;
  if (level == 0) return {0, 1, kThread << 8, 0};
  if (level == 1) return {0, 1, kCore << 8 | 1, 0};
  return {0, 0, level & 0xff, 0};
}

CpuidAnswer without_core(uint32_t leaf, CpuidAnswer answer) {
  switch (leaf) {
    case 1:
      answer.ebx &= 0x00ff'ffff;  // the core's number
      answer.ecx &= ~kRdrand;
      break;
    case 7:
      answer.ebx &= ~kRdseed;
      answer.ecx &= ~kRdpid;
      break;
    case 0xb:
    case 0x1f:
      answer.edx = 0;
      break;
    case 0x8000'001e:
      answer.eax = 0;
      answer.ebx &= ~0xffu;
      answer.ecx &= ~0xffu;
      break;
    default:
      break;
  }
  return answer;
}

// What the processor that this is executed on answers.
CpuidAnswer ask(uint32_t leaf) {
  CpuidAnswer a;
  if (__get_cpuid_count(leaf, 0, &a.eax, &a.ebx, &a.ecx, &a.edx) == 0) return {};
  return a;
}

uint64_t state_enabled_here(uint32_t leaf1_ecx_bits) {
  constexpr uint32_t kOsXsave = 1u << 27;
  if ((leaf1_ecx_bits & kOsXsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// The first processor of the host's /proc/cpuinfo, as a machine with no other, whose lines that
// differ from core to core or from moment to moment have one value.
std::string describe_host() {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(':');
    const auto is = [&](std::string_view key) { return line.starts_with(std::string(key) + "\t"); };
    const auto set = [&](std::string_view value) {
      line = line.substr(0, colon + 1).append(" ").append(value);
    };
    if (colon == std::string::npos) continue;
    for (const std::string_view key :
         {"processor", "physical id", "core id", "apicid", "initial apicid"})
      if (is(key)) set("0");
    for (const std::string_view key : {"siblings", "cpu cores"})
      if (is(key)) set("1");
    if (is("cpu MHz")) set("1000.000");
    if (is("bogomips")) set("2000.00");
    if (is("flags")) {
      for (const std::string_view hidden : {" rdrand", " rdseed", " rdpid"}) {
        const size_t at = (line + ' ').find(std::string(hidden) + ' ');
        if (at != std::string::npos) line.erase(at, hidden.size());
      }
    }
    text += line + '\n';
  }
  return text + '\n';
}

}  // namespace

const CpuModel* CpuModel::find(std::string_view name) {
  const auto* it =
      std::ranges::find_if(kModels, [&](const CpuModel& m) { return m.name() == name; });
  return it == std::end(kModels) ? nullptr : it;
}

const CpuModel& CpuModel::host() {
  return *find("host");
}

std::string CpuModel::missing_here() const {
  const CpuidAnswer one = ask(1), seven = ask(7), extended = ask(0x8000'0001);
  const uint32_t here[kFeatureWords] = {one.ecx, one.edx, seven.ebx, extended.ecx, extended.edx};
  const bool has_state = (state_enabled_here(one.ecx) & enabled_state_) == enabled_state_;
  std::string missing;
  for (const Feature& f : kFeatures) {
    const auto word = static_cast<unsigned>(f.word);
    const uint32_t bit = uint32_t{1} << f.bit;
    if ((features_.words[word] & bit) == 0 || (here[word] & bit) != 0) continue;
    missing.append(missing.empty() ? "" : " ").append(f.name);
  }
  if (missing.empty() && !has_state) return "registers that the kernel keeps";
  return missing;
}

// Leaf 0xd.
CpuidAnswer CpuModel::state_area(uint32_t subleaf, const CpuidAnswer& host) const {
  if (subleaf == 0) {
    return {static_cast<uint32_t>(enabled_state_), std::max(kStateAreaBytes, host.ebx),
            std::max(kStateAreaBytes, host.ecx), static_cast<uint32_t>(enabled_state_ >> 32)};
  }
  // Where the host's XSAVE puts a part.
  const bool has_part = subleaf >= 2 && subleaf < 63 && (enabled_state_ >> subleaf & 1) != 0;
  return has_part ? host : CpuidAnswer{};
}

// The three leaves that hold 16 characters each.
CpuidAnswer CpuModel::brand(uint32_t part) const {
  std::array<char, kBrandBytes> text{};
  brand_.copy(text.data(), text.size() - 1);
  std::array<uint32_t, 4> words;
  std::memcpy(words.data(), text.data() + part * sizeof(words), sizeof(words));
  return {words[0], words[1], words[2], words[3]};
}

uint32_t CpuModel::highest_leaf() const {
  return enabled_state_ == 0 ? 7 : 0xd;
}

CpuidAnswer CpuModel::cpuid(uint32_t leaf, uint32_t subleaf, const CpuidAnswer& host) const {
  if (is_host()) return without_core(leaf, host);
  if (leaf < 0x8000'0000 && leaf > highest_leaf()) return {};
  switch (leaf) {
    case 0:
      return {highest_leaf(), 0x756e6547, 0x6c65746e, 0x49656e69};  // "GenuineIntel"
    case 1:
      return {kSignature, 1 << 16 | (kFlushedLineBytes / 8) << 8, features_.of(leaf1_ecx),
              features_.of(leaf1_edx)};
    case 2:
      return {0x01, 0xff, 0, 0};  // caches: see leaf 4
    case 4:
      return cache(subleaf);
    case 7:
      return {0, subleaf == 0 ? features_.of(leaf7_ebx) : 0, 0, 0};
    case 0xb:
      return topology(subleaf);
    case 0xd:
      return state_area(subleaf, host);
    case 0x8000'0000:
      return {kHighestExtendedLeaf, 0, 0, 0};
    case 0x8000'0001:
      return {0, 0, features_.of(extended_ecx), features_.of(extended_edx)};
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

std::string CpuModel::description() const {
  if (is_host()) return describe_host();
  std::string flags;
  for (const Feature& f : kFeatures) {
    // The kernel does not list what it enables itself.
    if (f.level <= level_ && f.name != "osxsave") flags.append(" ").append(f.name);
  }
  return fmt::format(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 15\n"
      "model name\t: {}\nstepping\t: 0\ncpu MHz\t\t: 1000.000\ncache size\t: {} KB\n"
      "physical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\napicid\t\t: 0\n"
      "initial apicid\t: 0\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: {}\nwp\t\t: yes\n"
      "flags\t\t:{}\nbugs\t\t:\nbogomips\t: 2000.00\nclflush size\t: {}\ncache_alignment\t: {}\n"
      "address sizes\t: 48 bits physical, 48 bits virtual\npower management:\n\n",
      brand_, kCaches[3].bytes >> 10, highest_leaf(), flags, kLineBytes, kLineBytes);
}

}  // namespace shadowprof::machine
