// SPDX-License-Identifier: MIT
//
// Arithmetic: the host's own instruction on the guest's operands, so that results and flags are
// those of the hardware.
#include "emu/interpret/access.h"
#include "emu/interpret/handlers.h"

namespace shadowprof::emu {
namespace {

using decoder::Code;

// What an instruction leaves in the flags, as State::flags has it.
#define SP_KEEP_FLAGS "lahf\n\tseto %%al"

template <Code kCode, typename T>
[[gnu::always_inline]] inline T with_flags(T a, T b, uint64_t& flags) {
  uint16_t f = 0;
#define SP_PLAIN(name) \
  asm(name " %[b], %[a]\n\t" SP_KEEP_FLAGS : [a] "+&r"(a), "=&a"(f) : [b] "r"(b) : "cc")
#define SP_CARRIED(name)                                         \
  asm("btl $8, %k[old]\n\t" name " %[b], %[a]\n\t" SP_KEEP_FLAGS \
      : [a] "+&r"(a), "=&a"(f)                                   \
      : [b] "r"(b), [old] "r"(flags)                             \
      : "cc")
#define SP_ONE_KEEPS_CARRY(name)                           \
  asm("btl $8, %k[old]\n\t" name " %[a]\n\t" SP_KEEP_FLAGS \
      : [a] "+&r"(a), "=&a"(f)                             \
      : [old] "r"(flags)                                   \
      : "cc")
  if constexpr (kCode == Code::add) SP_PLAIN("add");
  if constexpr (kCode == Code::sub) SP_PLAIN("sub");
  if constexpr (kCode == Code::cmp) SP_PLAIN("cmp");
  if constexpr (kCode == Code::and_) SP_PLAIN("and");
  if constexpr (kCode == Code::or_) SP_PLAIN("or");
  if constexpr (kCode == Code::xor_) SP_PLAIN("xor");
  if constexpr (kCode == Code::test) SP_PLAIN("test");
  if constexpr (kCode == Code::imul && sizeof(T) > 1) {
    // Some processors leave the flags that it does not define as they are.
    uint64_t old = flags;
    asm("addb $0x7f, %%al\n\tsahf\n\timul %[b], %[a]\n\t" SP_KEEP_FLAGS
        : [a] "+&r"(a), "+&a"(old)
        : [b] "r"(b)
        : "cc");
    f = static_cast<uint16_t>(old);
  }
  if constexpr (kCode == Code::adc) SP_CARRIED("adc");
  if constexpr (kCode == Code::sbb) SP_CARRIED("sbb");
  if constexpr (kCode == Code::inc) SP_ONE_KEEPS_CARRY("inc");
  if constexpr (kCode == Code::dec) SP_ONE_KEEPS_CARRY("dec");
  if constexpr (kCode == Code::neg)
    asm("neg %[a]\n\t" SP_KEEP_FLAGS : [a] "+&r"(a), "=&a"(f) : : "cc");
  if constexpr (kCode == Code::not_) return static_cast<T>(~a);
#undef SP_PLAIN
#undef SP_CARRIED
#undef SP_ONE_KEEPS_CARRY
  flags = f;
  return a;
}

template <Code kCode, typename T>
[[gnu::always_inline]] inline T without_flags(T a, T b, uint64_t flags) {
  const auto carry = static_cast<T>((flags >> 8) & 1);
  switch (kCode) {
    case Code::add:
      return static_cast<T>(a + b);
    case Code::sub:
      return static_cast<T>(a - b);
    case Code::and_:
      return static_cast<T>(a & b);
    case Code::or_:
      return static_cast<T>(a | b);
    case Code::xor_:
      return static_cast<T>(a ^ b);
    case Code::imul:
      return static_cast<T>(uint64_t{a} * uint64_t{b});
    case Code::adc:
      return static_cast<T>(a + b + carry);
    case Code::sbb:
      return static_cast<T>(a - b - carry);
    case Code::inc:
      return static_cast<T>(a + 1);
    case Code::dec:
      return static_cast<T>(a - 1);
    case Code::neg:
      return static_cast<T>(0 - a);
    case Code::not_:
      return static_cast<T>(~a);
    default:
      return a;
  }
}

template <Code kCode, typename T, Form kForm, bool kFlags>
const Op* alu(State& state, const Op* op) {
  constexpr bool kToMemory = kForm == Form::mem_reg || kForm == Form::mem_imm || kForm == Form::mem;
  constexpr bool kDiscards = kCode == Code::cmp || kCode == Code::test;
  T a{}, b{};
  uint64_t address = 0;
  if constexpr (kToMemory || kForm == Form::reg_mem) address = address_of(state, op);
  if constexpr (kToMemory) {
    if (!load(state, address, a)) return op;
  } else {
    a = get<T>(state, op->use.dst);
  }
  if constexpr (kForm == Form::reg_mem) {
    if (!load(state, address, b)) return op;
  } else if constexpr (kForm == Form::reg_imm || kForm == Form::mem_imm) {
    b = static_cast<T>(op->immediate);
  } else {
    b = get<T>(state, op->use.src);
  }
  uint64_t flags = state.flags;
  if constexpr (kFlags) {
    a = with_flags<kCode>(a, b, flags);
  } else {
    a = without_flags<kCode>(a, b, flags);
  }
  if constexpr (!kDiscards) {
    if constexpr (kToMemory) {
      if (!store(state, address, a)) return op;
    } else {
      put(state, op->use.dst, a);
    }
  }
  if constexpr (kFlags) state.flags = flags;
  return go_on(state, op + 1);
}

// imul with three operands: dst = src (or memory) * immediate.
template <typename T, bool kMemory, bool kFlags>
const Op* multiply(State& state, const Op* op) {
  T a{};
  if constexpr (kMemory) {
    if (!load(state, address_of(state, op), a)) return op;
  } else {
    a = get<T>(state, op->use.src);
  }
  const T b = static_cast<T>(op->immediate);
  if constexpr (kFlags) {
    a = with_flags<Code::imul>(a, b, state.flags);
  } else {
    a = without_flags<Code::imul>(a, b, 0);
  }
  put(state, op->use.dst, a);
  return go_on(state, op + 1);
}

// Counts of zero leave the flags alone, so the old ones are in place first.
template <Code kCode, typename T>
[[gnu::always_inline]] inline T shifted(T a, uint8_t count, uint64_t& flags) {
  uint64_t f = flags;
#define SP_SHIFT(name)                                                    \
  asm("addb $0x7f, %%al\n\tsahf\n\t" name " %%cl, %[a]\n\t" SP_KEEP_FLAGS \
      : [a] "+r"(a), "+&a"(f)                                             \
      : "c"(count)                                                        \
      : "cc")
  if constexpr (kCode == Code::shl) SP_SHIFT("shl");
  if constexpr (kCode == Code::shr) SP_SHIFT("shr");
  if constexpr (kCode == Code::sar) SP_SHIFT("sar");
  if constexpr (kCode == Code::rol) SP_SHIFT("rol");
  if constexpr (kCode == Code::ror) SP_SHIFT("ror");
#undef SP_SHIFT
  flags = f & 0xffff;
  return a;
}

template <Code kCode, typename T, Form kForm>
const Op* shift(State& state, const Op* op) {
  constexpr bool kMemory = kForm == Form::mem_reg || kForm == Form::mem_imm;
  constexpr bool kImmediate = kForm == Form::reg_imm || kForm == Form::mem_imm;
  const uint8_t count =
      kImmediate ? static_cast<uint8_t>(op->immediate) : get<uint8_t>(state, op->use.src);
  uint64_t flags = state.flags;
  if constexpr (kMemory) {
    const uint64_t address = address_of(state, op);
    T a{};
    if (!load(state, address, a)) return op;
    if (!store(state, address, shifted<kCode>(a, count, flags))) return op;
  } else {
    put(state, op->use.dst, shifted<kCode>(get<T>(state, op->use.dst), count, flags));
  }
  if constexpr (kForm == Form::reg_imm && (kCode == Code::rol || kCode == Code::ror)) {
    if (op->use.extra != 0) flags = (flags & ~kOverflowBit) | (state.flags & kOverflowBit);
  }
  state.flags = flags;
  return go_on(state, op + 1);
}

template <Code kCode, typename T, bool kFlags>
Handler alu_of_form(Form form) {
  switch (form) {
    case Form::reg_reg:
      return alu<kCode, T, Form::reg_reg, kFlags>;
    case Form::reg_imm:
      return alu<kCode, T, Form::reg_imm, kFlags>;
    case Form::reg_mem:
      return alu<kCode, T, Form::reg_mem, kFlags>;
    case Form::mem_reg:
      return alu<kCode, T, Form::mem_reg, kFlags>;
    case Form::mem_imm:
      return alu<kCode, T, Form::mem_imm, kFlags>;
    default:
      return nullptr;
  }
}

template <Code kCode, typename T, bool kFlags>
Handler one_operand(Form form) {
  return form == Form::reg   ? alu<kCode, T, Form::reg, kFlags>
         : form == Form::mem ? alu<kCode, T, Form::mem, kFlags>
                             : nullptr;
}

template <typename T, bool kFlags>
Handler multiply_of_form(Form form) {
  if (form == Form::reg_reg) return alu<Code::imul, T, Form::reg_reg, kFlags>;
  if (form == Form::reg_mem) return alu<Code::imul, T, Form::reg_mem, kFlags>;
  if (form == Form::reg_imm) return multiply<T, false, kFlags>;
  return form == Form::mem_imm ? multiply<T, true, kFlags> : nullptr;
}

template <typename T, bool kFlags>
Handler alu_of_code(Code code, Form form) {
  switch (code) {
    case Code::add:
      return alu_of_form<Code::add, T, kFlags>(form);
    case Code::or_:
      return alu_of_form<Code::or_, T, kFlags>(form);
    case Code::adc:
      return alu_of_form<Code::adc, T, kFlags>(form);
    case Code::sbb:
      return alu_of_form<Code::sbb, T, kFlags>(form);
    case Code::and_:
      return alu_of_form<Code::and_, T, kFlags>(form);
    case Code::sub:
      return alu_of_form<Code::sub, T, kFlags>(form);
    case Code::xor_:
      return alu_of_form<Code::xor_, T, kFlags>(form);
    case Code::cmp:
      return alu_of_form<Code::cmp, T, kFlags>(form);
    case Code::test:
      return alu_of_form<Code::test, T, kFlags>(form);
    case Code::inc:
      return one_operand<Code::inc, T, kFlags>(form);
    case Code::dec:
      return one_operand<Code::dec, T, kFlags>(form);
    case Code::neg:
      return one_operand<Code::neg, T, kFlags>(form);
    case Code::not_:
      return one_operand<Code::not_, T, false>(form);
    case Code::imul:
      if constexpr (sizeof(T) > 1) return multiply_of_form<T, kFlags>(form);
      return nullptr;
    default:
      return nullptr;
  }
}

template <bool kFlags>
Handler alu_of_width(Code code, uint8_t bits, Form form) {
  switch (bits) {
    case 8:
      return alu_of_code<uint8_t, kFlags>(code, form);
    case 16:
      return alu_of_code<uint16_t, kFlags>(code, form);
    case 32:
      return alu_of_code<uint32_t, kFlags>(code, form);
    case 64:
      return alu_of_code<uint64_t, kFlags>(code, form);
    default:
      return nullptr;
  }
}

template <Code kCode, typename T>
Handler shift_of_form(Form form) {
  switch (form) {
    case Form::reg_reg:
      return shift<kCode, T, Form::reg_reg>;
    case Form::reg_imm:
      return shift<kCode, T, Form::reg_imm>;
    case Form::mem_reg:
      return shift<kCode, T, Form::mem_reg>;
    case Form::mem_imm:
      return shift<kCode, T, Form::mem_imm>;
    default:
      return nullptr;
  }
}

template <typename T>
Handler shift_of_code(Code code, Form form) {
  switch (code) {
    case Code::shl:
      return shift_of_form<Code::shl, T>(form);
    case Code::shr:
      return shift_of_form<Code::shr, T>(form);
    case Code::sar:
      return shift_of_form<Code::sar, T>(form);
    case Code::rol:
      return shift_of_form<Code::rol, T>(form);
    case Code::ror:
      return shift_of_form<Code::ror, T>(form);
    default:
      return nullptr;
  }
}

}  // namespace

Handler alu_handler(Code code, uint8_t bits, Form form, bool flags) {
  // Without its flags a comparison does nothing but read memory, which may fault.
  const bool keep = flags || code == Code::cmp || code == Code::test;
  return keep ? alu_of_width<true>(code, bits, form) : alu_of_width<false>(code, bits, form);
}

Handler shift_handler(Code code, uint8_t bits, Form form) {
  switch (bits) {
    case 8:
      return shift_of_code<uint8_t>(code, form);
    case 16:
      return shift_of_code<uint16_t>(code, form);
    case 32:
      return shift_of_code<uint32_t>(code, form);
    case 64:
      return shift_of_code<uint64_t>(code, form);
    default:
      return nullptr;
  }
}

}  // namespace shadowprof::emu
