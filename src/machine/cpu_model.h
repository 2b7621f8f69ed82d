// SPDX-License-Identifier: MIT
//
// The processor that a program is told it runs on, where it must be the same one on every machine:
// the C library and others choose code by what cpuid says, and then counts depend on the host.
//
// x86-64-v2, v3 and v4 are the levels of the psABI, with fixed caches and one processor; `baseline`
// is another name of the first of them, which every processor since about 2009 has and the oldest
// that some distributions' loaders accept. A model is a subset of the host, which missing_here()
// tells: what a program finds in it, it may use.
//
// `host` is the host's own processor without what differs from one moment to the next: the number
// of the core that cpuid is executed on, and instructions whose results are random or name that
// core.
//
// XSAVE writes what the processor has, not what a model says: the size of its area (leaf 0xd) is
// never told smaller than the host's. Up to AVX-512 it is one number for all hosts. XSAVEC, whose
// area is laid out by what the host has, is in no model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shadowprof::machine {

struct CpuidAnswer {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  bool operator==(const CpuidAnswer&) const = default;
};

// Words of cpuid that have one bit for each feature.
enum class FeatureWord : uint8_t { leaf1_ecx, leaf1_edx, leaf7_ebx, extended_ecx, extended_edx };
inline constexpr unsigned kFeatureWords = 5;

struct FeatureSet {
  uint32_t words[kFeatureWords] = {};
  uint32_t of(FeatureWord word) const { return words[static_cast<unsigned>(word)]; }
};

class CpuModel {
 public:
  // nullptr: there is none of this name.
  static const CpuModel* find(std::string_view name);
  static const CpuModel& host();

  std::string_view name() const { return name_; }
  bool is_host() const { return level_ == 0; }
  // What this host lacks to execute the model's instructions, as /proc/cpuinfo calls them,
  // separated by blanks. Empty: nothing.
  std::string missing_here() const;
  // What cpuid answers when eax and ecx are these, and the host's processor answers `host`. A leaf
  // that the model does not have is 0.
  CpuidAnswer cpuid(uint32_t leaf, uint32_t subleaf, const CpuidAnswer& host) const;
  // What xgetbv answers of the enabled parts of the state; 0: what the host says.
  uint64_t enabled_state() const { return enabled_state_; }
  // AT_HWCAP; 0: what the host says.
  uint32_t hwcap() const { return features_.of(FeatureWord::leaf1_edx); }
  // /proc/cpuinfo, of one processor.
  std::string description() const;

  constexpr CpuModel(std::string_view name, unsigned level, std::string_view brand,
                     FeatureSet features, uint64_t enabled_state)
      : name_(name),
        level_(level),
        brand_(brand),
        features_(features),
        enabled_state_(enabled_state) {}

 private:
  CpuidAnswer brand(uint32_t part) const;
  CpuidAnswer state_area(uint32_t subleaf, const CpuidAnswer& host) const;
  uint32_t highest_leaf() const;

  std::string_view name_;
  unsigned level_;  // of the psABI; 0: the host
  std::string_view brand_;
  FeatureSet features_;
  uint64_t enabled_state_;
};

}  // namespace shadowprof::machine
