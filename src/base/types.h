// SPDX-License-Identifier: MIT
//
// Strong types for the numbers that must not be mixed up: an address in the profiled program is
// not an address in ours, and a thread id is not an index.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/spread.h"

namespace shadowprof {

// An integer that only converts on request. Tag makes each instantiation its own type.
template <typename Tag, typename Rep>
struct StrongId {
  Rep value{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  constexpr auto operator<=>(const StrongId&) const = default;
};

using Tid = StrongId<struct TidTag, int32_t>;              // a kernel thread (or process) id
using BlockId = StrongId<struct BlockIdTag, uint32_t>;     // index into trace::BlockTable
using RunId = StrongId<struct RunIdTag, uint32_t>;         // what a trace record begins with
using ModuleId = StrongId<struct ModuleIdTag, uint32_t>;   // index into trace::ModuleTable
using FragmentId = StrongId<struct FragmentIdTag, uint32_t>;  // index into emu::CodeCache

// An address in the profiled program's address space.
struct GuestAddr {
  uint64_t value = 0;

  constexpr GuestAddr() = default;
  constexpr explicit GuestAddr(uint64_t v) : value(v) {}
  constexpr auto operator<=>(const GuestAddr&) const = default;

  constexpr GuestAddr operator+(uint64_t bytes) const { return GuestAddr(value + bytes); }
  constexpr GuestAddr operator-(uint64_t bytes) const { return GuestAddr(value - bytes); }
  constexpr int64_t operator-(GuestAddr other) const {
    return static_cast<int64_t>(value - other.value);
  }
  constexpr GuestAddr page() const { return GuestAddr(value & ~uint64_t{4095}); }
};

// Half-open range of guest addresses.
struct GuestRange {
  GuestAddr start;
  GuestAddr end;

  constexpr bool contains(GuestAddr a) const { return start <= a && a < end; }
  constexpr bool overlaps(GuestRange o) const { return start < o.end && o.start < end; }
  constexpr uint64_t size() const { return end.value - start.value; }
  constexpr auto operator<=>(const GuestRange&) const = default;
};

}  // namespace shadowprof

template <typename Tag, typename Rep>
struct std::hash<shadowprof::StrongId<Tag, Rep>> {
  size_t operator()(shadowprof::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};

template <>
struct std::hash<shadowprof::GuestAddr> {
  // Code addresses differ mostly in the low bits; the multiplication spreads them over the table.
  size_t operator()(shadowprof::GuestAddr a) const noexcept {
    return static_cast<size_t>(shadowprof::spread(a.value) >> 20);
  }
};
