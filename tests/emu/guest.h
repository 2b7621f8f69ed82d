// SPDX-License-Identifier: MIT
//
// A guest for the emulator: a page of code, and much memory whose bytes are all the same.
#pragma once

#include <algorithm>
#include <vector>

#include "emu/interpret/emulator.h"

namespace shadowprof::test {

inline constexpr GuestAddr kCode{0x400000};
inline constexpr GuestAddr kData{0x10000000};
inline constexpr uint64_t kDataBytes = uint64_t{1} << 30;
inline constexpr uint64_t kPage = limits::kPageBytes;

class Guest : public machine::MemorySource, public emu::CodeSource {
 public:
  Guest(trace::BlockTable& table, std::vector<uint8_t> code, uint8_t data = 0)
      : code_(std::move(code)), data_(data), module_(table.add_module(module())) {}

  size_t read_some(GuestAddr from, std::span<uint8_t> out) override {
    std::ranges::fill(out, from >= kData ? data_ : uint8_t{0});
    return from >= kData ? out.size() : fetch(from, out);
  }
  emu::CodeRegion region(GuestAddr address) override {
    emu::CodeRegion region;
    if (!GuestRange{kCode, kCode + kPage}.contains(address)) return region;
    region.range = {kCode, kCode + kPage};
    region.module = module_;
    return region;
  }
  size_t fetch(GuestAddr address, std::span<uint8_t> out) override {
    const uint64_t at = address - kCode;
    if (at >= code_.size()) return 0;
    const size_t size = std::min(out.size(), code_.size() - at);
    std::copy_n(code_.begin() + static_cast<ptrdiff_t>(at), size, out.begin());
    return size;
  }

  static std::vector<machine::MemoryArea> areas() {
    return {{{kCode, kCode + kPage}, true, false}, {{kData, kData + kDataBytes}, true, true}};
  }

 private:
  static trace::Module module() {
    trace::Module module;
    module.range = {kCode, kCode + kPage};
    return module;
  }

  std::vector<uint8_t> code_;
  uint8_t data_;
  ModuleId module_;
};

}  // namespace shadowprof::test
