// SPDX-License-Identifier: MIT
//
// Registers, memory and flow for handlers. General-purpose registers only (state.h).
#pragma once

#include "emu/interpret/state.h"

// Handlers call one another at the end where the compiler turns that into a jump. Elsewhere
// (without optimisation, under sanitizers) they return to a loop.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(SP_NO_TAIL_CALLS)
#define SP_TAIL_CALLS 1
#else
#define SP_TAIL_CALLS 0
#endif

namespace shadowprof::emu {

inline const Op* go_on(State& state, const Op* op) {
#if SP_TAIL_CALLS
  return op->handler(state, op);
#else
  (void)state;
  return op;
#endif
}

inline const Op* stop_at(State& state, const Op* op, Stop why) {
  state.stop = why;
  return op;
}

template <typename T>
inline T get(State& state, uint8_t offset) {
  T value;
  __builtin_memcpy(&value, reinterpret_cast<char*>(state.gpr) + offset, sizeof value);
  return value;
}

// 32-bit results clear the upper half.
template <typename T>
inline void put(State& state, uint8_t offset, T value) {
  if constexpr (sizeof(T) == 4) {
    const uint64_t whole = value;
    __builtin_memcpy(reinterpret_cast<char*>(state.gpr) + offset, &whole, 8);
  } else {
    __builtin_memcpy(reinterpret_cast<char*>(state.gpr) + offset, &value, sizeof value);
  }
}

inline uint64_t address_of(const State& state, const Op* op) {
  return state.gpr[op->use.base] + (state.gpr[op->use.index] << op->use.scale) +
         static_cast<uint64_t>(op->displacement);
}

inline const TlbEntry& read_entry(const State& state, uint64_t address) {
  return state.read_tlb[(address >> 12) & (kTlbEntries - 1)];
}
inline const TlbEntry& write_entry(const State& state, uint64_t address) {
  return state.write_tlb[(address >> 12) & (kTlbEntries - 1)];
}

inline bool miss(State& state, uint64_t address, bool writes) {
  state.stop = Stop::miss;
  state.miss_address = address;
  state.miss_writes = writes;
  return false;
}

// Where `address` is in our memory, or null, which is a miss. For what does not cross a page.
inline uint8_t* host_place(State& state, uint64_t address, bool writes) {
  const TlbEntry& e = writes ? write_entry(state, address) : read_entry(state, address);
  if (e.page != (address & ~kPageMask)) {
    miss(state, address, writes);
    return nullptr;
  }
  return reinterpret_cast<uint8_t*>(address + e.addend);
}

// Across pages, byte by byte: `size` bytes of ours from or to `address`. False: a miss.
bool read_split(State& state, uint64_t address, uint8_t* bytes, uint64_t size);
bool write_split(State& state, uint64_t address, const uint8_t* bytes, uint64_t size);
// The same with a value of up to eight bytes: no local variable of a handler may have its address
// taken, or its last call would not become a jump. Whether it is a miss is in State::stop.
[[gnu::cold]] uint64_t read_value_split(State& state, uint64_t address, uint64_t size);
[[gnu::cold]] bool write_value_split(State& state, uint64_t address, uint64_t value, uint64_t size);

// An access that crosses a page has its last byte in another page than the entry's.
template <typename T>
[[gnu::always_inline]] inline bool load(State& state, uint64_t address, T& value) {
  const TlbEntry& e = read_entry(state, address);
  if (__builtin_expect(((address + sizeof(T) - 1) & ~kPageMask) == e.page, 1)) {
    using Aliased [[gnu::may_alias, gnu::aligned(1)]] = T;
    value = *reinterpret_cast<const Aliased*>(address + e.addend);
    return true;
  }
  value = static_cast<T>(read_value_split(state, address, sizeof value));
  return state.stop == Stop::none;
}

template <typename T>
[[gnu::always_inline]] inline bool store(State& state, uint64_t address, T value) {
  const TlbEntry& e = write_entry(state, address);
  if (__builtin_expect(((address + sizeof(T) - 1) & ~kPageMask) == e.page, 1)) {
    using Aliased [[gnu::may_alias, gnu::aligned(1)]] = T;
    *reinterpret_cast<Aliased*>(address + e.addend) = value;
    return true;
  }
  return write_value_split(state, address, static_cast<uint64_t>(value), sizeof value);
}

// Conditions by their number in the encodings, from State::flags.
constexpr uint64_t kCarryBit = 1u << 8;
constexpr uint64_t kParityBit = 1u << 10;
constexpr uint64_t kZeroBit = 1u << 14;
constexpr uint64_t kSignBit = 1u << 15;
constexpr uint64_t kOverflowBit = 1;

template <unsigned kCondition>
[[gnu::always_inline]] inline bool holds(uint64_t flags) {
  const bool sign_differs = ((flags >> 15) & 1) != (flags & 1);
  bool result = false;
  switch (kCondition >> 1) {
    case 0:
      result = flags & kOverflowBit;
      break;
    case 1:
      result = flags & kCarryBit;
      break;
    case 2:
      result = flags & kZeroBit;
      break;
    case 3:
      result = flags & (kCarryBit | kZeroBit);
      break;
    case 4:
      result = flags & kSignBit;
      break;
    case 5:
      result = flags & kParityBit;
      break;
    case 6:
      result = sign_differs;
      break;
    default:
      result = sign_differs || (flags & kZeroBit);
      break;
  }
  return result != static_cast<bool>(kCondition & 1);
}

}  // namespace shadowprof::emu
