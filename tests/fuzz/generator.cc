// SPDX-License-Identifier: MIT
#include "generator.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace shadowprof::fuzz {

using decoder::Gpr;
using decoder::gpr_bit;
using decoder::GprMask;
using decoder::kR15;
using decoder::kRcx;
using decoder::kRdi;
using decoder::kRsi;
using decoder::kRsp;
using decoder::MemoryAccess;

namespace {

// Where nothing is mapped, natively or by an engine. With the highest bit set, no address at all.
constexpr uint64_t kNothing = 0x123400000000;

constexpr size_t kCodeLimit = FUZZ_CODE_BYTES - 1024;

}  // namespace

void Generator::put_number(uint64_t v, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) code_.push_back(static_cast<uint8_t>(v >> (8 * i)));
}

void Generator::refer(Label label, FieldKind kind) {
  fields_.push_back({code_.size(), label, kind});
  put_number(0, kind == FieldKind::absolute64 ? 8 : kind == FieldKind::relative32 ? 4 : 1);
}

void Generator::resolve() {
  for (const Field& f : fields_) {
    const size_t target = labels_[f.label];
    if (f.kind == FieldKind::absolute64) {
      const uint64_t v = start_ + target;
      std::memcpy(&code_[f.at], &v, 8);
    } else if (f.kind == FieldKind::relative32) {
      const auto v = static_cast<int32_t>(target - (f.at + 4));
      std::memcpy(&code_[f.at], &v, 4);
    } else {
      const auto distance = static_cast<int64_t>(target) - static_cast<int64_t>(f.at + 1);
      SP_CHECK(distance >= -128 && distance <= 127, "a short branch over {} bytes", distance);
      code_[f.at] = static_cast<uint8_t>(distance);
    }
  }
}

Gpr Generator::any_register(GprMask kept) {
  for (;;) {
    const auto r = random_.percent(30) ? kR15 : static_cast<Gpr>(random_.below(16));
    if (r != kRsp && !(kept & gpr_bit(r))) return r;
  }
}

void Generator::set_register(Gpr r, uint64_t value) {
  if (value <= UINT32_MAX) {  // mov r32, imm32
    if (r >= 8) put({0x41});
    put({static_cast<uint8_t>(0xb8 | (r & 7))});
    put_number(value, 4);
  } else {  // movabs r, imm64
    put({static_cast<uint8_t>(0x48 | r >> 3), static_cast<uint8_t>(0xb8 | (r & 7))});
    put_number(value, 8);
  }
}

// Somewhere with room for the largest operand on both sides.
uint64_t Generator::target_address(bool reachable_only) {
  if (wild_ && !reachable_only) return kNothing + random_.below(1 << 20) + (random_.next() << 63);
  const bool local = (reachable_only && far_) || random_.percent(20);
  const uint64_t base =
      !local ? FUZZ_DATA : (far_ ? FUZZ_FAR_CODE : FUZZ_NEAR_CODE) + FUZZ_LOCAL_DATA;
  const uint64_t bytes = local ? FUZZ_LOCAL_BYTES : FUZZ_DATA_BYTES;
  const uint64_t at = 512 + random_.below(bytes - 1536);
  return base + (random_.percent(85) ? at & ~uint64_t{63} : at);
}

void Generator::patch_displacement(RandomInsn& made, uint64_t v) const {
  std::memcpy(&made.insn.bytes[made.displacement_offset], &v, made.displacement_bits / 8u);
}

// Gives the registers of one memory operand values that make it hit the case's memory. False: it
// cannot be done without touching a kept register.
bool Generator::aim_access(RandomInsn& made, const MemoryAccess& a, GprMask kept) {
  const bool explicit_displacement = !a.implicit && made.displacement_bits >= 32;
  int64_t displacement = a.displacement;
  if (a.base == decoder::kRip) return true;  // when its place is known
  if (a.base == kRsp && (kept & gpr_bit(kRsp))) return false;
  const bool must_reach = a.base == decoder::kNoGpr;
  uint64_t target = must_reach ? FUZZ_DATA + 512 + 64 * random_.below(64) : target_address(false);
  if (made.address_bits == 32) target = FUZZ_DATA + 1024;
  if (explicit_displacement) {
    displacement = static_cast<int64_t>(random_.below(4096)) - 2048;
    if (a.base == decoder::kNoGpr && a.index == decoder::kNoGpr) {
      displacement = static_cast<int64_t>(target);
    }
    patch_displacement(made, static_cast<uint64_t>(displacement));
  }
  GprMask needed = 0;
  if (a.base < 16 && a.base != kRsp) needed |= gpr_bit(a.base);
  if (a.index < 16) needed |= gpr_bit(a.index);
  if (needed & kept) return false;
  uint64_t index = random_.percent(50) ? random_.below(32) : random_.next();
  if (a.base == kRsp) index = random_.below(32);
  if (a.base == decoder::kNoGpr && a.index < 16) {
    index = random_.below(8);
    displacement = static_cast<int64_t>(target - index * a.scale);
    patch_displacement(made, static_cast<uint64_t>(displacement));
  }
  if (a.index < 16) {
    set_register(a.index, index);
  } else {
    index = 0;
  }
  if (a.base < 16 && a.base != kRsp) {
    uint64_t base = target - index * a.scale - static_cast<uint64_t>(displacement);
    if (made.address_bits == 32) base = static_cast<uint32_t>(base) | random_.next() << 32;
    set_register(a.base, base);
  }
  return true;
}

bool Generator::aim(RandomInsn& made, GprMask kept) {
  for (uint8_t i = 0; i < made.insn.access_count; i++) {
    const MemoryAccess& a = made.insn.accesses[i];
    if (a.implicit && a.base == kRsp) continue;
    if (!aim_access(made, a, kept)) return false;
  }
  return true;
}

bool Generator::try_ordinary(GprMask kept) {
  auto made = random_insn(random_);
  if (!made || (made->insn.writes & kept)) return false;
  if ((made->bit_string || made->repeated) && (made->address_bits == 32 || !random_.percent(10)))
    return false;
  if (made->repeated && made->insn.access_count > 0 && (kept & gpr_bit(kRcx))) return false;
  const size_t before = code_.size();
  wild_ = random_.percent(2);
  if (!aim(*made, kept)) {
    code_.resize(before);
    return false;
  }
  if (made->repeated && made->insn.access_count > 0) set_register(kRcx, random_.below(40));
  if (made->insn.rip_relative) {
    const uint64_t next = here() + made->insn.length;
    const uint64_t target = wild_ && far_ ? start_ - (1 << 28) : target_address(true);
    patch_displacement(*made, target - next);
  }
  code_.insert(code_.end(), made->insn.bytes.begin(), made->insn.bytes.begin() + made->insn.length);
  return true;
}

void Generator::ordinary(GprMask kept) {
  while (!try_ordinary(kept)) {
  }
}

void Generator::push_pop(GprMask kept) {
  const auto one = [&](uint8_t opcode, Gpr r) {
    if (r >= 8) put({0x41});
    put({static_cast<uint8_t>(opcode | (r & 7))});
  };
  switch (random_.below(4)) {
    case 0:
      one(0x50, static_cast<Gpr>(random_.below(16)));
      break;
    case 1:
      one(0x58, any_register(kept));
      break;
    case 2:  // push r15 or another, and back into another
      one(0x50, random_.percent(50) ? kR15 : static_cast<Gpr>(random_.below(16)));
      one(0x58, any_register(kept));
      break;
    default:  // push qword [rsp+disp8], pop qword [rsp+disp8]
      put({0xff, 0x74, 0x24, static_cast<uint8_t>(8 * random_.below(16))});
      put({0x8f, 0x44, 0x24, static_cast<uint8_t>(8 * random_.below(16))});
      break;
  }
}

// pushfq; keep what may be set; popfq.
void Generator::flags_through_stack() {
  put({0x9c});
  if (random_.percent(60)) {
    put({0x81, 0x34, 0x24});  // xor dword [rsp], imm32
    put_number(random_.next() & 0xcd5, 4);
  }
  put({0x9d});
}

void Generator::string_insn(GprMask kept) {
  if (kept & (gpr_bit(kRcx) | gpr_bit(kRsi) | gpr_bit(kRdi))) return ordinary(kept);
  set_register(kRsi, FUZZ_DATA + 1024 + random_.below(512));
  set_register(kRdi, FUZZ_DATA + 4096 + random_.below(512));
  set_register(kRcx, random_.below(40));
  if (random_.percent(70)) put({random_.one_of({0xf2, 0xf3})});
  if (random_.percent(20)) put({0x66});
  if (random_.percent(30)) put({0x48});
  put({random_.one_of({0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf})});
}

// vpgatherdd xmm3, [base + xmm1*4], xmm2, all indices zero.
void Generator::gather() {
  const Gpr base = random_.one_of({0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 14, 15});
  set_register(base, target_address(false));
  put({0xc5, 0xf1, 0xef, 0xc9});  // vpxor xmm1, xmm1, xmm1
  put({0xc5, 0xe9, 0x76, 0xd2});  // vpcmpeqd xmm2, xmm2, xmm2
  put({0xc4, static_cast<uint8_t>(base >= 8 ? 0xc2 : 0xe2), 0x69, 0x90, 0x1c,
       static_cast<uint8_t>(0x88 | (base & 7))});
}

// lea r, [rip + x], with 16, 32 or 64 bits.
void Generator::address_of(GprMask kept) {
  const Gpr r = any_register(kept);
  const uint64_t width = random_.below(3);
  if (width == 0) put({0x66});
  put({static_cast<uint8_t>(0x40 | (width == 2 ? 8 : 0) | r >> 3 << 2), 0x8d,
       static_cast<uint8_t>(0x05 | (r & 7) << 3)});
  put_number(random_.next() % 100000, 4);
}

// call the next instruction; pop r.
void Generator::call_next(GprMask kept) {
  const Gpr r = any_register(kept);
  put({0xe8});
  put_number(0, 4);
  if (r >= 8) put({0x41});
  put({static_cast<uint8_t>(0x58 | (r & 7))});
}

void Generator::skip_forward(GprMask kept) {
  const Label over = new_label();
  const uint64_t how = random_.below(10);
  if (how == 0) {  // jrcxz and its relatives have no long form
    if (random_.percent(30)) put({0x67});
    put({0xe3});
    refer(over, FieldKind::relative8);
    push_pop(kept);
    return place(over);
  }
  if (how == 1) {
    put({0xe9});
  } else {
    put({0x0f, static_cast<uint8_t>(0x80 | random_.below(16))});
  }
  refer(over, FieldKind::relative32);
  const uint64_t items = random_.below(4);
  for (uint64_t i = 0; i < items; i++) item(kept, false);
  place(over);
}

void Generator::loop(GprMask kept) {
  if (kept & gpr_bit(kRcx)) return ordinary(kept);
  set_register(kRcx, 1 + random_.below(20));
  const Label top = new_label(), out = new_label(), in = new_label();
  place(top);
  const uint64_t items = 1 + random_.below(3);
  for (uint64_t i = 0; i < items; i++) ordinary(kept | gpr_bit(kRcx));
  // loop, loope, loopne reach 128 bytes; the body may be longer.
  put({random_.percent(60) ? uint8_t{0xe2} : random_.one_of({0xe0, 0xe1})});
  refer(in, FieldKind::relative8);
  put({0xe9});
  refer(out, FieldKind::relative32);
  place(in);
  put({0xe9});
  refer(top, FieldKind::relative32);
  place(out);
}

void Generator::call_function() {
  const Label f = new_label();
  called_.push_back(f);
  const uint64_t how = random_.below(3);
  if (how == 0) {
    put({0xe8});
    refer(f, FieldKind::relative32);
  } else if (how == 1) {  // movabs r, f; call r
    const Gpr r = any_register(0);
    put({static_cast<uint8_t>(0x48 | r >> 3), static_cast<uint8_t>(0xb8 | (r & 7))});
    refer(f, FieldKind::absolute64);
    if (r >= 8) put({0x41});
    put({0xff, static_cast<uint8_t>(0xd0 | (r & 7))});
  } else {  // call [rip + pointer]
    const Label pointer = new_label();
    pointers_.push_back(pointer);
    pointer_targets_.push_back(f);
    put({0xff, 0x15});
    refer(pointer, FieldKind::relative32);
  }
}

// Through a register, memory on the stack, or a pushed address and ret.
void Generator::indirect_jump(GprMask kept) {
  const Gpr r = any_register(kept);
  const Label over = new_label();
  put({static_cast<uint8_t>(0x48 | r >> 3), static_cast<uint8_t>(0xb8 | (r & 7))});
  refer(over, FieldKind::absolute64);
  if (random_.percent(50)) {
    if (r >= 8) put({0x41});
    put({0xff, static_cast<uint8_t>(0xe0 | (r & 7))});
  } else {
    if (r >= 8) put({0x41});
    put({static_cast<uint8_t>(0x50 | (r & 7))});  // push r
    if (random_.percent(50)) {
      put({0xff, 0x24, 0x24});  // jmp [rsp]
    } else if (random_.percent(50)) {
      put({0xc3});  // ret
    } else {
      put({0xc2});  // ret imm16
      put_number(8 * random_.below(4), 2);
    }
  }
  put_number(random_.next(), random_.below(8));  // never executed, and perhaps no instruction
  place(over);
}

void Generator::flow_item(GprMask kept, bool outermost) {
  const uint64_t what = random_.below(100);
  if (what < 40) return skip_forward(kept);
  if (what < 55 && outermost) return loop(kept);
  if (what < 80 && outermost) return call_function();
  if (what < 95) return indirect_jump(kept);
  call_next(kept);
}

void Generator::item(GprMask kept, bool outermost) {
  if (code_.size() > kCodeLimit) return;
  const uint64_t what = random_.below(100);
  if (what < 68) return ordinary(kept);
  if (what < 74) return push_pop(kept);
  if (what < 76) return flags_through_stack();
  if (what < 79) return string_insn(kept);
  if (what < 80 && kept == 0) return gather();
  if (what < 83) return address_of(kept);
  flow_item(kept, outermost);
}

// Functions leave the stack alone: their return address must survive.
void Generator::functions() {
  for (const Label f : called_) {
    place(f);
    const uint64_t items = random_.below(4);
    for (uint64_t i = 0; i < items; i++) ordinary(gpr_bit(kRsp));
    if (random_.percent(20)) {  // ret imm16
      put({0xc2});
      put_number(8 * random_.below(3), 2);
    } else {
      put({0xc3});
    }
  }
  for (size_t i = 0; i < pointers_.size(); i++) {
    place(pointers_[i]);
    refer(pointer_targets_[i], FieldKind::absolute64);
  }
}

FuzzCase Generator::make() {
  FuzzCase c{};
  c.seed = seed_;
  far_ = random_.percent(50);
  c.writable = random_.percent(30);
  // Anywhere in the first page; often so that the code crosses into the second.
  const uint64_t offset = random_.percent(70) ? random_.below(64) : 4096 - random_.below(64);
  start_ = (far_ ? FUZZ_FAR_CODE : FUZZ_NEAR_CODE) + offset;
  c.code_address = start_;
  for (int i = 0; i < 16; i++) {
    c.gpr[i] = random_.percent(60) ? random_.next() : random_.next() >> (8 * random_.below(8));
  }
  c.gpr[kRsp] = FUZZ_STACK + FUZZ_STACK_BYTES / 2 + (random_.percent(80) ? 0 : random_.below(64));
  c.flags = static_cast<uint32_t>((random_.next() & FUZZ_FLAGS) | 0x202);
  if (random_.percent(80)) c.flags &= ~0x400u;
  c.mxcsr =
      static_cast<uint32_t>(0x1f80 | random_.below(4) << 13 | (random_.percent(10) ? 0x8040 : 0));

  const uint64_t items = 1 + random_.below(24);
  for (uint64_t i = 0; i < items; i++) item(0, true);
  put({0xff, 0x25, 0, 0, 0, 0});  // jmp [rip+0]
  c.exit_field = static_cast<uint32_t>(code_.size());
  put_number(0, 8);
  functions();
  resolve();
  SP_CHECK(code_.size() <= sizeof(c.code), "a case of {} bytes", code_.size());
  c.code_bytes = static_cast<uint32_t>(code_.size());
  std::copy(code_.begin(), code_.end(), c.code);
  return c;
}

std::string listing(const FuzzCase& c) {
  std::string text = fmt::format("seed {}: {} code{}, flags {:#x}, mxcsr {:#x}\n", c.seed,
                                 c.code_address >= FUZZ_FAR_CODE ? "far" : "near",
                                 c.writable ? ", writable" : "", c.flags, c.mxcsr);
  for (uint32_t at = 0; at < c.code_bytes;) {
    if (at == c.exit_field) {
      text += fmt::format("  {:#x}  (exit address)\n", c.code_address + at);
      at += 8;
      continue;
    }
    const std::span<const uint8_t> rest(c.code + at, c.code_bytes - at);
    const decoder::Insn insn = decoder::decode(rest, GuestAddr(c.code_address + at));
    const uint32_t length = insn.length ? insn.length : 1;
    std::string bytes;
    for (uint32_t i = 0; i < length; i++) bytes += fmt::format("{:02x}", c.code[at + i]);
    text += fmt::format("  {:#x}  {:<32} {}\n", c.code_address + at, bytes,
                        decoder::disassemble(rest, GuestAddr(c.code_address + at)));
    at += length;
  }
  return text;
}

}  // namespace shadowprof::fuzz
