// SPDX-License-Identifier: MIT
//
// String instructions. Repeated ones keep rcx, rsi and rdi up to date, so that they go on where a
// miss or the end of a page interrupted them, as the hardware's do. `src` is the slot offset of the
// base that the source's segment has.
#include <type_traits>

#include "emu/interpret/access.h"
#include "emu/interpret/handlers.h"

namespace shadowprof::emu {
namespace {

using decoder::Code;
using decoder::Repeat;

constexpr size_t kRax = 0, kRcx = 1, kRsi = 6, kRdi = 7;

template <typename T>
uint64_t step(const State& state) {
  return state.backwards ? uint64_t{0} - sizeof(T) : sizeof(T);
}

// Flags of a - b.
template <typename T>
uint64_t compared(T a, T b) {
  uint16_t f = 0;
  asm("cmp %[b], %[a]\n\tlahf\n\tseto %%al" : "=&a"(f) : [a] "r"(a), [b] "r"(b) : "cc");
  return f;
}

// One repetition. False: a miss.
template <Code kCode, typename T>
bool once(State& state, const Op* op) {
  const uint64_t source = state.gpr[kRsi] + get<uint64_t>(state, op->use.src);
  const uint64_t to = state.gpr[kRdi];
  T value{}, other{};
  if constexpr (kCode == Code::movs || kCode == Code::lods || kCode == Code::cmps) {
    if (!load(state, source, value)) return false;
  }
  if constexpr (kCode == Code::movs) {
    if (!store(state, to, value)) return false;
  }
  if constexpr (kCode == Code::stos) {
    if (!store(state, to, get<T>(state, kRax))) return false;
  }
  if constexpr (kCode == Code::lods) put(state, kRax, value);
  if constexpr (kCode == Code::cmps || kCode == Code::scas) {
    if (!load(state, to, other)) return false;
    if constexpr (kCode == Code::scas) value = get<T>(state, kRax);
    state.flags = compared(value, other);
  }
  if constexpr (kCode == Code::movs || kCode == Code::lods || kCode == Code::cmps)
    state.gpr[kRsi] += step<T>(state);
  if constexpr (kCode != Code::lods) state.gpr[kRdi] += step<T>(state);
  return true;
}

// As many elements as are left and lie in the page.
template <typename T>
uint64_t elements_in_page(uint64_t address, uint64_t left) {
  const uint64_t room = (kPageMask + 1 - (address & kPageMask)) / sizeof(T);
  return left < room ? left : room;
}

// Forwards, a page's part at a time, by the host's own instruction: it copies overlapping ranges as
// the guest's would. Zero: one element has to be done by itself (or is a miss).
template <Code kCode, typename T>
uint64_t in_bulk(State& state, const Op* op) {
  const uint64_t to = state.gpr[kRdi];
  uint64_t count = elements_in_page<T>(to, state.gpr[kRcx]);
  const uint64_t source = state.gpr[kRsi] + get<uint64_t>(state, op->use.src);
  if constexpr (kCode == Code::movs) count = elements_in_page<T>(source, count);
  if (count == 0 || state.backwards) return 0;
  void* out = host_place(state, to, true);
  if (!out) return 0;
  uint64_t n = count;
  if constexpr (kCode == Code::stos) {
    const T value = get<T>(state, kRax);
    if constexpr (sizeof(T) == 1)
      asm volatile("rep stosb" : "+D"(out), "+c"(n) : "a"(value) : "memory");
    if constexpr (sizeof(T) == 2)
      asm volatile("rep stosw" : "+D"(out), "+c"(n) : "a"(value) : "memory");
    if constexpr (sizeof(T) == 4)
      asm volatile("rep stosl" : "+D"(out), "+c"(n) : "a"(value) : "memory");
    if constexpr (sizeof(T) == 8)
      asm volatile("rep stosq" : "+D"(out), "+c"(n) : "a"(value) : "memory");
  } else {
    const void* in = host_place(state, source, false);
    if (!in) return 0;
    if constexpr (sizeof(T) == 1)
      asm volatile("rep movsb" : "+D"(out), "+S"(in), "+c"(n) : : "memory");
    if constexpr (sizeof(T) == 2)
      asm volatile("rep movsw" : "+D"(out), "+S"(in), "+c"(n) : : "memory");
    if constexpr (sizeof(T) == 4)
      asm volatile("rep movsl" : "+D"(out), "+S"(in), "+c"(n) : : "memory");
    if constexpr (sizeof(T) == 8)
      asm volatile("rep movsq" : "+D"(out), "+S"(in), "+c"(n) : : "memory");
    state.gpr[kRsi] += count * sizeof(T);
  }
  state.gpr[kRdi] += count * sizeof(T);
  state.gpr[kRcx] -= count;
  return count;
}

template <Code kCode, typename T, Repeat kRepeat>
const Op* string(State& state, const Op* op) {
  if constexpr (kRepeat == Repeat::none)
    return once<kCode, T>(state, op) ? go_on(state, op + 1) : op;
  constexpr bool kCompares = kCode == Code::cmps || kCode == Code::scas;
  while (state.gpr[kRcx] != 0) {
    if constexpr (kCode == Code::movs || kCode == Code::stos) {
      if (in_bulk<kCode, T>(state, op) != 0) continue;
      if (state.stop != Stop::none) return op;
    }
    if (!once<kCode, T>(state, op)) return op;
    state.gpr[kRcx]--;
    if constexpr (kCompares) {
      const bool equal = (state.flags & kZeroBit) != 0;
      if (equal != (kRepeat == Repeat::repe)) break;
    }
  }
  return go_on(state, op + 1);
}

template <Code kCode, typename T>
Handler of_repeat(Repeat repeat) {
  switch (repeat) {
    case Repeat::none:
      return string<kCode, T, Repeat::none>;
    case Repeat::repe:
      return string<kCode, T, Repeat::repe>;
    case Repeat::repne:
      return string<kCode, T, Repeat::repne>;
  }
  return nullptr;
}

template <typename T>
Handler of_code(Code code, Repeat repeat) {
  switch (code) {
    case Code::movs:
      return of_repeat<Code::movs, T>(repeat);
    case Code::stos:
      return of_repeat<Code::stos, T>(repeat);
    case Code::lods:
      return of_repeat<Code::lods, T>(repeat);
    case Code::scas:
      return of_repeat<Code::scas, T>(repeat);
    case Code::cmps:
      return of_repeat<Code::cmps, T>(repeat);
    default:
      return nullptr;
  }
}

}  // namespace

Handler string_handler(Code code, uint8_t bits, Repeat repeat) {
  switch (bits) {
    case 8:
      return of_code<uint8_t>(code, repeat);
    case 16:
      return of_code<uint16_t>(code, repeat);
    case 32:
      return of_code<uint32_t>(code, repeat);
    case 64:
      return of_code<uint64_t>(code, repeat);
    default:
      return nullptr;
  }
}

}  // namespace shadowprof::emu
