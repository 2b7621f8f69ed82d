// SPDX-License-Identifier: MIT
//
// Moves, conditions, bit strings, the stack's data instructions, cells.
#include <type_traits>
#include <utility>

#include "emu/interpret/access.h"
#include "emu/interpret/handlers.h"

namespace shadowprof::emu {

bool read_split(State& state, uint64_t address, uint8_t* bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; i++) {
    const uint8_t* place = host_place(state, address + i, false);
    if (!place) return false;
    bytes[i] = *place;
  }
  return true;
}

// Nothing is written before all of it can be. The last byte may be the address space's.
bool write_split(State& state, uint64_t address, const uint8_t* bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; i += kPageMask + 1 - ((address + i) & kPageMask)) {
    if (!host_place(state, address + i, true)) return false;
  }
  for (uint64_t i = 0; i < size; i++) *host_place(state, address + i, true) = bytes[i];
  return true;
}

uint64_t read_value_split(State& state, uint64_t address, uint64_t size) {
  uint8_t bytes[8] = {};
  if (!read_split(state, address, bytes, size)) return 0;
  uint64_t value;
  __builtin_memcpy(&value, bytes, sizeof value);
  return value;
}

bool write_value_split(State& state, uint64_t address, uint64_t value, uint64_t size) {
  uint8_t bytes[8];
  __builtin_memcpy(bytes, &value, sizeof value);
  return write_split(state, address, bytes, size);
}

namespace {

constexpr uint8_t kRsp = 4 * 8;

template <typename T, Form kForm>
const Op* move(State& state, const Op* op) {
  if constexpr (kForm == Form::reg_reg) put(state, op->use.dst, get<T>(state, op->use.src));
  if constexpr (kForm == Form::reg_imm) put(state, op->use.dst, static_cast<T>(op->immediate));
  if constexpr (kForm == Form::reg_mem) {
    T value;
    if (!load(state, address_of(state, op), value)) return op;
    put(state, op->use.dst, value);
  }
  if constexpr (kForm == Form::mem_reg) {
    if (!store(state, address_of(state, op), get<T>(state, op->use.src))) return op;
  }
  if constexpr (kForm == Form::mem_imm) {
    if (!store(state, address_of(state, op), static_cast<T>(op->immediate))) return op;
  }
  return go_on(state, op + 1);
}

template <typename From, typename To, Form kForm>
const Op* extend(State& state, const Op* op) {
  From value{};
  if constexpr (kForm == Form::reg_mem) {
    if (!load(state, address_of(state, op), value)) return op;
  } else {
    value = get<From>(state, op->use.src);
  }
  put(state, op->use.dst, static_cast<To>(value));
  return go_on(state, op + 1);
}

// The memory operand is read whatever the condition is; a 32-bit destination's upper half is
// cleared.
template <unsigned kCondition, typename T, Form kForm>
const Op* move_if(State& state, const Op* op) {
  T value{};
  if constexpr (kForm == Form::reg_mem) {
    if (!load(state, address_of(state, op), value)) return op;
  } else {
    value = get<T>(state, op->use.src);
  }
  const T old = get<T>(state, op->use.dst);
  put(state, op->use.dst, holds<kCondition>(state.flags) ? value : old);
  return go_on(state, op + 1);
}

template <unsigned kCondition, Form kForm>
const Op* set_if(State& state, const Op* op) {
  const uint8_t value = holds<kCondition>(state.flags);
  if constexpr (kForm == Form::mem) {
    if (!store(state, address_of(state, op), value)) return op;
  } else {
    put(state, op->use.dst, value);
  }
  return go_on(state, op + 1);
}

template <unsigned kCondition>
const Op* branch(State& state, const Op* op) {
  return go_on(state, holds<kCondition>(state.flags) ? op->link : op + 1);
}

template <typename T, Form kForm>
const Op* exchange(State& state, const Op* op) {
  if constexpr (kForm == Form::reg_reg) {
    const T a = get<T>(state, op->use.dst);
    put(state, op->use.dst, get<T>(state, op->use.src));
    put(state, op->use.src, a);
  } else {
    const uint64_t address = address_of(state, op);
    T value;
    if (!load(state, address, value)) return op;
    if (!store(state, address, get<T>(state, op->use.src))) return op;
    put(state, op->use.src, value);
  }
  return go_on(state, op + 1);
}

// The register holds a signed offset of a bit, which may lie far from the operand.
template <unsigned kVariant, typename T>
const Op* bit_in_memory(State& state, const Op* op) {
  using Signed = std::make_signed_t<T>;
  constexpr int kBits = 8 * sizeof(T);
  const auto offset = static_cast<int64_t>(get<Signed>(state, op->use.src));
  const auto distance = (offset >> __builtin_ctz(kBits)) * static_cast<int64_t>(sizeof(T));
  const uint64_t address = address_of(state, op) + static_cast<uint64_t>(distance);
  const T mask = static_cast<T>(T{1} << (offset & (kBits - 1)));
  T value;
  if (!load(state, address, value)) return op;
  T changed = value;
  if constexpr (kVariant == 1) changed = static_cast<T>(value | mask);
  if constexpr (kVariant == 2) changed = static_cast<T>(value & ~mask);
  if constexpr (kVariant == 3) changed = static_cast<T>(value ^ mask);
  if constexpr (kVariant != 0) {
    if (!store(state, address, changed)) return op;
  }
  state.flags = (state.flags & ~kCarryBit) | ((value & mask) != 0 ? kCarryBit : 0);
  return go_on(state, op + 1);
}

const Op* nop(State& state, const Op* op) {
  return go_on(state, op + 1);
}

template <typename T>
const Op* lea(State& state, const Op* op) {
  put(state, op->use.dst, static_cast<T>(address_of(state, op)));
  return go_on(state, op + 1);
}

// An address of other parts than base, index and displacement, for the op that follows.
const Op* effective_address(State& state, const Op* op) {
  const uint64_t address = address_of(state, op);
  const uint64_t segment = get<uint64_t>(state, op->use.src);
  state.gpr[kScratchSlot] = segment + (op->use.extra ? static_cast<uint32_t>(address) : address);
  return go_on(state, op + 1);
}

[[gnu::always_inline]] inline bool push(State& state, uint64_t value) {
  const uint64_t sp = get<uint64_t>(state, kRsp) - 8;
  if (!store(state, sp, value)) return false;
  put(state, kRsp, sp);
  return true;
}

[[gnu::always_inline]] inline bool pop(State& state, uint64_t& value) {
  const uint64_t sp = get<uint64_t>(state, kRsp);
  if (!load(state, sp, value)) return false;
  put(state, kRsp, sp + 8);
  return true;
}

const Op* push_reg(State& state, const Op* op) {
  return push(state, get<uint64_t>(state, op->use.src)) ? go_on(state, op + 1) : op;
}

const Op* push_imm(State& state, const Op* op) {
  return push(state, static_cast<uint64_t>(op->immediate)) ? go_on(state, op + 1) : op;
}

const Op* push_mem(State& state, const Op* op) {
  uint64_t value = 0;
  if (!load(state, address_of(state, op), value)) return op;
  return push(state, value) ? go_on(state, op + 1) : op;
}

const Op* pop_reg(State& state, const Op* op) {
  uint64_t value = 0;
  if (!pop(state, value)) return op;
  put(state, op->use.dst, value);
  return go_on(state, op + 1);
}

// The address is computed with the stack pointer as it is after the pop.
const Op* pop_mem(State& state, const Op* op) {
  const uint64_t before = get<uint64_t>(state, kRsp);
  uint64_t value = 0;
  if (!pop(state, value)) return op;
  if (!store(state, address_of(state, op), value)) {
    put(state, kRsp, before);
    return op;
  }
  return go_on(state, op + 1);
}

const Op* leave(State& state, const Op* op) {
  constexpr uint8_t kRbp = 5 * 8;
  const uint64_t frame = get<uint64_t>(state, kRbp);
  uint64_t value = 0;
  if (!load(state, frame, value)) return op;
  put(state, kRsp, frame + 8);
  put(state, kRbp, value);
  return go_on(state, op + 1);
}

constexpr uint64_t kDirectionFlag = 1u << 10;
constexpr uint64_t kOverflowFlag = 1u << 11;
constexpr uint64_t kLahfFlags = 0xd5;
// Those that a program can set by itself: TF, NT, AC and ID besides.
constexpr uint64_t kSettable = 1u << 8 | 1u << 14 | 1u << 18 | 1u << 21;

const Op* pushf(State& state, const Op* op) {
  uint64_t flags = state.other_flags | ((state.flags >> 8) & kLahfFlags) | 2;
  if (state.flags & kOverflowBit) flags |= kOverflowFlag;
  if (state.backwards) flags |= kDirectionFlag;
  return push(state, flags & ~(uint64_t{1} << 16 | 1u << 17)) ? go_on(state, op + 1) : op;
}

const Op* popf(State& state, const Op* op) {
  uint64_t flags = 0;
  if (!pop(state, flags)) return op;
  state.flags = ((flags & kLahfFlags) | 2) << 8 | ((flags & kOverflowFlag) ? 1u : 0u);
  state.backwards = (flags & kDirectionFlag) != 0;
  state.other_flags = (state.other_flags & ~kSettable) | (flags & kSettable);
  return go_on(state, op + 1);
}

const Op* set_direction(State& state, const Op* op) {
  state.backwards = op->use.extra;
  return go_on(state, op + 1);
}

template <typename T>
const Op* sign_into_rdx(State& state, const Op* op) {
  const auto a = static_cast<std::make_signed_t<T>>(get<T>(state, 0));
  put(state, 2 * 8, static_cast<T>(a < 0 ? -1 : 0));
  return go_on(state, op + 1);
}

// Base is rbx, or a segment's on top.
const Op* xlat(State& state, const Op* op) {
  uint8_t value = 0;
  if (!load(state, address_of(state, op) + get<uint8_t>(state, 0), value)) return op;
  put(state, 0, value);
  return go_on(state, op + 1);
}

template <typename T>
const Op* read_base(State& state, const Op* op) {
  put(state, op->use.dst, static_cast<T>(get<uint64_t>(state, op->use.src)));
  return go_on(state, op + 1);
}

template <typename T>
const Op* write_base(State& state, const Op* op) {
  const uint64_t value = get<T>(state, op->use.src);
  const auto top = static_cast<int64_t>(value) >> 47;
  if (top != 0 && top != -1) return stop_at(state, op, Stop::cell_fault);
  put(state, op->use.dst, value);
  return go_on(state, op + 1);
}

const Op* capture_bits(State& state, const Op* op, uint64_t value) {
  __builtin_memcpy(reinterpret_cast<char*>(state.cursor) + op->displacement, &value, sizeof value);
  return go_on(state, op + 1);
}

const Op* capture(State& state, const Op* op) {
  return capture_bits(state, op, get<uint64_t>(state, op->use.src));
}

template <typename T>
const Op* capture_memory(State& state, const Op* op) {
  T value;
  if (!load(state, address_of(state, op), value)) return op;
  const uint64_t whole = value;
  __builtin_memcpy(reinterpret_cast<char*>(state.cursor) + op->immediate, &whole, sizeof whole);
  return go_on(state, op + 1);
}

template <size_t kNumber>
const Op* capture_vector(State& state, const Op* op) {
  if (!state.vectors_loaded) return stop_at(state, op, Stop::vectors);
  uint64_t value;
  if constexpr (kNumber < 16)
    asm volatile("movq %%xmm%c1, %0" : "=r"(value) : "i"(kNumber));
  else
    asm volatile("vmovq %%xmm%c1, %0" : "=r"(value) : "i"(kNumber));
  return capture_bits(state, op, value);
}

template <size_t kNumber>
const Op* capture_mask(State& state, const Op* op) {
  if (!state.vectors_loaded) return stop_at(state, op, Stop::vectors);
  uint64_t value;
  asm volatile("kmovq %%k%c1, %0" : "=r"(value) : "i"(kNumber));
  return capture_bits(state, op, value);
}

template <size_t... kNumbers>
Handler nth_capture_of_vector(size_t number, std::index_sequence<kNumbers...>) {
  static constexpr Handler kHandlers[] = {capture_vector<kNumbers>...};
  return kHandlers[number];
}
template <size_t... kNumbers>
Handler nth_capture_of_mask(size_t number, std::index_sequence<kNumbers...>) {
  static constexpr Handler kHandlers[] = {capture_mask<kNumbers>...};
  return kHandlers[number];
}

// The operand in one piece where it is; across pages, in the bounce buffer, aligned alike.
const Op* cell(State& state, const Op* op) {
  const Cell& c = *op->cell;
  if (c.uses_vectors && !state.vectors_loaded) return stop_at(state, op, Stop::vectors);
  if (!c.has_memory) {
    if (!c.code(&state, nullptr)) return stop_at(state, op, Stop::cell_fault);
    return go_on(state, op + 1);
  }
  const uint64_t address = address_of(state, op);
  const uint64_t last = address + c.memory_bytes - 1;
  if (((address ^ last) & ~kPageMask) == 0) {
    uint8_t* place = nullptr;
    if (c.reads && !(place = host_place(state, address, false))) return op;
    if (c.writes && !(place = host_place(state, address, true))) return op;
    if (!place && !(place = host_place(state, address, false))) return op;
    if (!c.code(&state, place)) return stop_at(state, op, Stop::cell_fault);
    return go_on(state, op + 1);
  }
  uint8_t* bounce = state.bounce + (address & 63);
  if (!read_split(state, address, bounce, c.memory_bytes)) return op;
  if (c.writes && !write_split(state, address, bounce, c.memory_bytes)) return op;
  if (!c.code(&state, bounce)) return stop_at(state, op, Stop::cell_fault);
  if (c.writes) (void)write_split(state, address, bounce, c.memory_bytes);
  return go_on(state, op + 1);
}

template <typename T>
Handler move_of_form(Form form) {
  switch (form) {
    case Form::reg_reg:
      return move<T, Form::reg_reg>;
    case Form::reg_imm:
      return move<T, Form::reg_imm>;
    case Form::reg_mem:
      return move<T, Form::reg_mem>;
    case Form::mem_reg:
      return move<T, Form::mem_reg>;
    case Form::mem_imm:
      return move<T, Form::mem_imm>;
    default:
      return nullptr;
  }
}

template <typename From, typename To>
Handler extend_of_form(Form form) {
  if constexpr (sizeof(From) > sizeof(To)) return nullptr;
  if (form == Form::reg_reg) return extend<From, To, Form::reg_reg>;
  return form == Form::reg_mem ? extend<From, To, Form::reg_mem> : nullptr;
}

template <typename From>
Handler extend_from(uint8_t to_bits, Form form) {
  switch (to_bits) {
    case 16:
      return extend_of_form<From, uint16_t>(form);
    case 32:
      return extend_of_form<From, uint32_t>(form);
    case 64:
      return extend_of_form<From, uint64_t>(form);
    default:
      return nullptr;
  }
}

// The sixteen instances of a template over conditions.
#define SP_BY_CONDITION(name, ...)                                                                 \
  {                                                                                                \
    name<0, __VA_ARGS__>, name<1, __VA_ARGS__>, name<2, __VA_ARGS__>, name<3, __VA_ARGS__>,        \
        name<4, __VA_ARGS__>, name<5, __VA_ARGS__>, name<6, __VA_ARGS__>, name<7, __VA_ARGS__>,    \
        name<8, __VA_ARGS__>, name<9, __VA_ARGS__>, name<10, __VA_ARGS__>, name<11, __VA_ARGS__>,  \
        name<12, __VA_ARGS__>, name<13, __VA_ARGS__>, name<14, __VA_ARGS__>, name<15, __VA_ARGS__> \
  }

template <typename T>
Handler move_if_of_form(uint8_t condition, Form form) {
  static constexpr Handler kRegister[] = SP_BY_CONDITION(move_if, T, Form::reg_reg);
  static constexpr Handler kMemory[] = SP_BY_CONDITION(move_if, T, Form::reg_mem);
  return form == Form::reg_reg ? kRegister[condition] : kMemory[condition];
}

}  // namespace

Handler capture_memory_handler(uint8_t bits) {
  switch (bits) {
    case 8:
      return capture_memory<uint8_t>;
    case 16:
      return capture_memory<uint16_t>;
    case 32:
      return capture_memory<uint32_t>;
    default:
      return capture_memory<uint64_t>;
  }
}

Handler capture_vector_handler(uint8_t number) {
  return nth_capture_of_vector(number, std::make_index_sequence<32>());
}

Handler capture_mask_handler(uint8_t number) {
  return nth_capture_of_mask(number, std::make_index_sequence<8>());
}

Handler move_handler(uint8_t bits, Form form) {
  switch (bits) {
    case 8:
      return move_of_form<uint8_t>(form);
    case 16:
      return move_of_form<uint16_t>(form);
    case 32:
      return move_of_form<uint32_t>(form);
    case 64:
      return move_of_form<uint64_t>(form);
    default:
      return nullptr;
  }
}

Handler extend_handler(bool is_signed, uint8_t from_bits, uint8_t to_bits, Form form) {
  switch (from_bits) {
    case 8:
      return is_signed ? extend_from<int8_t>(to_bits, form) : extend_from<uint8_t>(to_bits, form);
    case 16:
      return is_signed ? extend_from<int16_t>(to_bits, form) : extend_from<uint16_t>(to_bits, form);
    case 32:
      return is_signed ? extend_from<int32_t>(to_bits, form) : extend_from<uint32_t>(to_bits, form);
    default:
      return nullptr;
  }
}

Handler cmov_handler(uint8_t condition, uint8_t bits, Form form) {
  switch (bits) {
    case 16:
      return move_if_of_form<uint16_t>(condition, form);
    case 32:
      return move_if_of_form<uint32_t>(condition, form);
    case 64:
      return move_if_of_form<uint64_t>(condition, form);
    default:
      return nullptr;
  }
}

Handler setcc_handler(uint8_t condition, Form form) {
  static constexpr Handler kRegister[] = SP_BY_CONDITION(set_if, Form::reg);
  static constexpr Handler kMemory[] = SP_BY_CONDITION(set_if, Form::mem);
  return form == Form::mem ? kMemory[condition] : kRegister[condition];
}

Handler branch_handler(uint8_t condition) {
  static constexpr Handler kAll[] = {
      branch<0>, branch<1>, branch<2>,  branch<3>,  branch<4>,  branch<5>,  branch<6>,  branch<7>,
      branch<8>, branch<9>, branch<10>, branch<11>, branch<12>, branch<13>, branch<14>, branch<15>};
  return kAll[condition];
}

template <typename T>
Handler bit_of_variant(uint8_t variant) {
  static constexpr Handler kAll[] = {bit_in_memory<0, T>, bit_in_memory<1, T>, bit_in_memory<2, T>,
                                     bit_in_memory<3, T>};
  return kAll[variant];
}

Handler bit_handler(uint8_t variant, uint8_t bits) {
  switch (bits) {
    case 16:
      return bit_of_variant<uint16_t>(variant);
    case 32:
      return bit_of_variant<uint32_t>(variant);
    case 64:
      return bit_of_variant<uint64_t>(variant);
    default:
      return nullptr;
  }
}

Handler exchange_handler(uint8_t bits, Form form) {
  const bool memory = form != Form::reg_reg;
  switch (bits) {
    case 8:
      return memory ? exchange<uint8_t, Form::mem_reg> : exchange<uint8_t, Form::reg_reg>;
    case 16:
      return memory ? exchange<uint16_t, Form::mem_reg> : exchange<uint16_t, Form::reg_reg>;
    case 32:
      return memory ? exchange<uint32_t, Form::mem_reg> : exchange<uint32_t, Form::reg_reg>;
    case 64:
      return memory ? exchange<uint64_t, Form::mem_reg> : exchange<uint64_t, Form::reg_reg>;
    default:
      return nullptr;
  }
}

const Handler kNop = nop, kLea64 = lea<uint64_t>, kLea32 = lea<uint32_t>, kLea16 = lea<uint16_t>,
              kAddress = effective_address, kPushReg = push_reg, kPushImm = push_imm,
              kPushMem = push_mem, kPopReg = pop_reg, kPopMem = pop_mem, kLeave = leave,
              kPushf = pushf, kPopf = popf, kSetDirection = set_direction,
              kCwd = sign_into_rdx<uint16_t>, kCdq = sign_into_rdx<uint32_t>,
              kCqo = sign_into_rdx<uint64_t>, kXlat = xlat, kReadBase64 = read_base<uint64_t>,
              kReadBase32 = read_base<uint32_t>, kWriteBase64 = write_base<uint64_t>,
              kWriteBase32 = write_base<uint32_t>, kCapture = capture, kCell = cell;

}  // namespace shadowprof::emu
