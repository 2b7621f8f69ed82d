// SPDX-License-Identifier: MIT
//
// Facts that the translator relies on, each checked by hand against the manuals.
#include "decoder/insn.h"
#include "decoder/operation.h"

#include <doctest/doctest.h>

#include <string_view>

#include <vector>

namespace shadowprof::decoder {
namespace {

constexpr GuestAddr kHere(0x401000);

Insn at_here(std::initializer_list<uint8_t> bytes) {
  return decode({bytes.begin(), bytes.size()}, kHere);
}

GprMask mask(std::initializer_list<Gpr> registers) {
  GprMask m = 0;
  for (const Gpr r : registers) m |= gpr_bit(r);
  return m;
}

struct KindRow {
  const char* what;
  std::vector<uint8_t> bytes;
  InsnKind kind;
};

const KindRow kKinds[] = {
    {"add eax, ecx", {0x01, 0xc8}, InsnKind::ordinary},
    {"ud2: the processor refuses a copy as well", {0x0f, 0x0b}, InsnKind::ordinary},
    {"hlt", {0xf4}, InsnKind::ordinary},
    {"je +2", {0x74, 0x02}, InsnKind::conditional},
    {"jo rel32", {0x0f, 0x80, 1, 0, 0, 0}, InsnKind::conditional},
    {"jrcxz", {0xe3, 0x00}, InsnKind::counter_branch},
    {"jecxz", {0x67, 0xe3, 0x00}, InsnKind::counter_branch},
    {"loop", {0xe2, 0xfe}, InsnKind::counter_branch},
    {"loope", {0xe1, 0xfe}, InsnKind::counter_branch},
    {"loopne", {0xe0, 0xfe}, InsnKind::counter_branch},
    {"jmp rel8", {0xeb, 0x00}, InsnKind::jump},
    {"bnd jmp rel32", {0xf2, 0xe9, 0, 0, 0, 0}, InsnKind::jump},
    {"call rel32", {0xe8, 0, 0, 0, 0}, InsnKind::call},
    {"jmp rax", {0xff, 0xe0}, InsnKind::indirect_jump},
    {"notrack jmp [rax]", {0x3e, 0xff, 0x20}, InsnKind::indirect_jump},
    {"call [rip]", {0xff, 0x15, 0, 0, 0, 0}, InsnKind::indirect_call},
    {"call r15", {0x41, 0xff, 0xd7}, InsnKind::indirect_call},
    {"ret", {0xc3}, InsnKind::ret},
    {"rep ret", {0xf3, 0xc3}, InsnKind::ret},
    {"ret 16", {0xc2, 0x10, 0x00}, InsnKind::ret},
    {"syscall", {0x0f, 0x05}, InsnKind::syscall},
    {"xbegin", {0xc7, 0xf8, 0, 0, 0, 0}, InsnKind::transaction},
    {"int3", {0xcc}, InsnKind::native},
    {"int 3, long", {0xcd, 0x03}, InsnKind::native},
    {"int1", {0xf1}, InsnKind::native},
    {"iretq", {0x48, 0xcf}, InsnKind::native},
    {"retf", {0xcb}, InsnKind::native},
    {"jmp far [rax]", {0xff, 0x28}, InsnKind::native},
    {"sysenter", {0x0f, 0x34}, InsnKind::native},
    {"no such opcode", {0x06}, InsnKind::native},
    {"cut short", {0x48, 0x8b}, InsnKind::native},
    {"lock where it is refused", {0xf0, 0x90}, InsnKind::native},
    {"int 0x80", {0xcd, 0x80}, InsnKind::unsupported},
    {"jmp with a 16-bit target", {0x66, 0xe9, 0, 0, 0, 0}, InsnKind::unsupported},
    {"ret with a 16-bit target", {0x66, 0xc3}, InsnKind::unsupported},
    {"call ax", {0x66, 0xff, 0xd0}, InsnKind::unsupported},
    {"mov rax, gs:[0]", {0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0}, InsnKind::ordinary},
    {"wrgsbase rax", {0xf3, 0x48, 0x0f, 0xae, 0xd8}, InsnKind::ordinary},
    {"rdgsbase rax", {0xf3, 0x48, 0x0f, 0xae, 0xc8}, InsnKind::ordinary},
    {"mov gs, eax", {0x8e, 0xe8}, InsnKind::ordinary},
    {"pop gs", {0x0f, 0xa9}, InsnKind::ordinary},
    {"mov eax, gs is only read", {0x8c, 0xe8}, InsnKind::ordinary},
    {"mov rax, fs:[0] is the thread's own",
     {0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0},
     InsnKind::ordinary},
    {"lea rax, gs:[rax] touches no memory", {0x65, 0x48, 0x8d, 0x00}, InsnKind::ordinary},
    {"mov eax, [eip+0]", {0x67, 0x8b, 0x05, 0, 0, 0, 0}, InsnKind::unsupported},
};

TEST_CASE("kinds, and what is refused") {
  for (const KindRow& row : kKinds) {
    CAPTURE(row.what);
    const Insn insn = decode(row.bytes, kHere);
    CHECK(static_cast<int>(insn.kind) == static_cast<int>(row.kind));
    CHECK((insn.unsupported_reason != nullptr) == (row.kind == InsnKind::unsupported));
  }
}

TEST_CASE("what goes through the gs segment or changes it is known, and nothing else") {
  for (const KindRow& row : kKinds) {
    CAPTURE(row.what);
    const std::string_view what = row.what;
    const bool expected = what == "mov rax, gs:[0]" || what == "wrgsbase rax" ||
                          what == "rdgsbase rax" || what == "mov gs, eax" || what == "pop gs";
    CHECK(decode(row.bytes, kHere).uses_gs == expected);
  }
}

TEST_CASE("bytes that are no instruction have no length, all others have theirs") {
  CHECK(at_here({0x06}).length == 0);
  CHECK(at_here({0x48, 0xb8, 1, 2, 3}).length == 0);
  CHECK(at_here({0x90, 0x90}).length == 1);
  CHECK(at_here({0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}).length == 10);
  CHECK(at_here({0x90}).next() == kHere + 1);
}

TEST_CASE("where direct branches lead") {
  CHECK(at_here({0x74, 0x02}).branch_target == kHere + 4);
  CHECK(at_here({0xe9, 0xfb, 0xff, 0xff, 0xff}).branch_target == kHere);
  CHECK(at_here({0xe8, 0x00, 0x10, 0x00, 0x00}).branch_target == kHere + 0x1005);
  CHECK(at_here({0xe2, 0xfe}).branch_target == kHere);
  CHECK(at_here({0xc2, 0x10, 0x00}).ret_pop_bytes == 16);
  CHECK(at_here({0xc3}).ret_pop_bytes == 0);
  for (uint8_t c = 0; c < 16; c++) {
    CHECK(at_here({static_cast<uint8_t>(0x70 | c), 0}).condition == c);
    CHECK(at_here({0x0f, static_cast<uint8_t>(0x80 | c), 0, 0, 0, 0}).condition == c);
  }
}

TEST_CASE("which bits of a register are the result, and whether the encoding alone gives them") {
  struct Row {
    const char* what;
    std::vector<uint8_t> bytes;
    uint8_t bits, shift;
    bool constant;
  };
  const Row rows[] = {
      {"mov eax, 5", {0xb8, 5, 0, 0, 0}, 32, 0, true},
      {"mov rax, [rip]", {0x48, 0x8b, 0x05, 0, 0, 0, 0}, 64, 0, false},
      {"lea rax, [rip]", {0x48, 0x8d, 0x05, 0, 0, 0, 0}, 64, 0, true},
      {"lea rax, [rbx]", {0x48, 0x8d, 0x03}, 64, 0, false},
      {"xor eax, eax", {0x31, 0xc0}, 32, 0, true},
      {"xor eax, ecx", {0x31, 0xc8}, 32, 0, false},
      {"sbb eax, eax: the carry", {0x19, 0xc0}, 32, 0, false},
      {"setz al", {0x0f, 0x94, 0xc0}, 8, 0, false},
      {"mov ah, bl", {0x88, 0xdc}, 8, 8, false},
      {"mov ax, bx", {0x66, 0x89, 0xd8}, 16, 0, false},
      {"rdrand eax", {0x0f, 0xc7, 0xf0}, 32, 0, false},
      {"movq rax, xmm0", {0x66, 0x48, 0x0f, 0x7e, 0xc0}, 64, 0, false},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const Insn insn = decode(row.bytes, kHere);
    CHECK(insn.result < 16);
    CHECK(insn.result_bits == row.bits);
    CHECK(insn.result_shift == row.shift);
    CHECK(insn.constant_result == row.constant);
  }
}

TEST_CASE("registers read and written, implicit ones included") {
  const Insn add = at_here({0x48, 0x03, 0x04, 0x8b});  // add rax, [rbx+rcx*4]
  CHECK(add.reads == mask({kRax, kRbx, kRcx}));
  CHECK(add.writes == mask({kRax}));
  const Insn mul = at_here({0x49, 0xf7, 0xe7});  // mul r15
  CHECK(mul.reads == mask({kRax, kR15}));
  CHECK(mul.writes == mask({kRax, kRdx}));
  const Insn push = at_here({0x53});  // push rbx
  CHECK(push.reads == mask({kRbx, kRsp}));
  CHECK(push.writes == mask({kRsp}));
  const Insn movs = at_here({0xf3, 0xa4});  // rep movsb
  CHECK(movs.reads == mask({kRcx, kRsi, kRdi}));
  CHECK(movs.writes == mask({kRcx, kRsi, kRdi}));
  const Insn cmpxchg = at_here({0x48, 0x0f, 0xc7, 0x0f});  // cmpxchg16b [rdi]
  CHECK(cmpxchg.reads == mask({kRax, kRbx, kRcx, kRdx, kRdi}));
  CHECK(cmpxchg.writes == mask({kRax, kRdx}));
  const Insn high = at_here({0x88, 0xe0});  // mov al, ah
  CHECK(high.reads == mask({kRax}));
  const Insn leave = at_here({0xc9});
  CHECK(leave.writes == mask({kRsp, kRbp}));
  const Insn cpuid = at_here({0x0f, 0xa2});
  CHECK(cpuid.writes == mask({kRax, kRbx, kRcx, kRdx}));
  // Called pause by the tables, but processors exchange.
  const Insn pause = at_here({0xf3, 0x49, 0x90});
  CHECK(pause.writes == mask({kRax, kR8}));
  CHECK(at_here({0xf3, 0x90}).writes == 0);
}

TEST_CASE("what is written on a condition is read, too") {
  const Insn cmov = at_here({0x48, 0x0f, 0x4c, 0xfe});  // cmovl rdi, rsi
  CHECK(cmov.reads == mask({kRdi, kRsi}));
  CHECK(cmov.writes == mask({kRdi}));
  const Insn sbb = at_here({0x48, 0x19, 0xc0});
  CHECK((sbb.flags_written & kAf) != 0);
}

TEST_CASE("which vector registers are read for what they hold") {
  struct Row {
    const char* what;
    std::vector<uint8_t> bytes;
    uint8_t read;
  };
  const Row rows[] = {
      {"addsd xmm0, xmm1", {0xf2, 0x0f, 0x58, 0xc1}, 3},
      {"movsd [rbp-8], xmm0", {0xf2, 0x0f, 0x11, 0x45, 0xf8}, 1},
      {"movaps [rdi], xmm1", {0x0f, 0x29, 0x0f}, 2},
      {"movaps [rsp+16], xmm0: saved", {0x0f, 0x29, 0x44, 0x24, 0x10}, 0},
      {"pxor xmm1, xmm1", {0x66, 0x0f, 0xef, 0xc9}, 0},
      {"pcmpeqd xmm1, xmm1", {0x66, 0x0f, 0x76, 0xc9}, 0},
      {"pcmpeqd xmm1, xmm2", {0x66, 0x0f, 0x76, 0xca}, 6},
      {"cvtsi2sd xmm1, rdi", {0xf2, 0x48, 0x0f, 0x2a, 0xcf}, 0},
      {"cvtss2sd xmm1, xmm2", {0xf3, 0x0f, 0x5a, 0xca}, 4},
      {"vcvtsi2sd xmm0, xmm1, rdi", {0xc4, 0xe1, 0xf3, 0x2a, 0xc7}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(decode(row.bytes, kHere).vector_reads == row.read);
  }
}

TEST_CASE("the result register, and whether all of it is new") {
  struct Row {
    std::vector<uint8_t> bytes;
    Gpr result;
    bool whole;
  };
  const Row rows[] = {
      {{0x48, 0x89, 0xc8}, kRax, true},              // mov rax, rcx
      {{0x89, 0xc8}, kRax, true},                    // mov eax, ecx: zeroes the rest
      {{0x66, 0x89, 0xc8}, kRax, false},             // mov ax, cx
      {{0x88, 0xcc}, kRax, false},                   // mov ah, cl
      {{0x4c, 0x8b, 0x38}, kR15, true},              // mov r15, [rax]
      {{0x48, 0x89, 0x08}, kNoGpr, false},           // mov [rax], rcx
      {{0x48, 0x39, 0xc8}, kNoGpr, false},           // cmp rax, rcx
      {{0x0f, 0x94, 0xc1}, kRcx, false},             // sete cl
      {{0x41, 0x5f}, kR15, true},                    // pop r15
      {{0x0f, 0x28, 0xc1}, kNoGpr, false},           // movaps xmm0, xmm1
      {{0x66, 0x48, 0x0f, 0x7e, 0xc0}, kRax, true},  // movq rax, xmm0
      {{0xc4, 0xe2, 0xf8, 0xf2, 0xc1}, kRax, true},  // andn rax, rax, rcx
      {{0x05, 1, 0, 0, 0}, kRax, true},              // add eax, 1, which the opcode names
      {{0x24, 0x0f}, kRax, false},                   // and al, 15
      {{0x3c, 0x0f}, kNoGpr, false},                 // cmp al, 15
  };
  for (const Row& row : rows) {
    const Insn insn = decode(row.bytes, kHere);
    CAPTURE(disassemble(row.bytes, kHere));
    CHECK(int{insn.result} == int{row.result});
    if (row.result != kNoGpr) CHECK(insn.whole_result == row.whole);
  }
}

TEST_CASE("memory accesses") {
  const Insn load = at_here({0x4b, 0x8b, 0x44, 0xfe, 0x10});  // mov rax, [r14+r15*8+16]
  REQUIRE(load.access_count == 1);
  CHECK(load.accesses[0].base == kR14);
  CHECK(load.accesses[0].index == kR15);
  CHECK(load.accesses[0].scale == 8);
  CHECK(load.accesses[0].size == 8);
  CHECK(load.accesses[0].displacement == 16);
  CHECK(load.accesses[0].read);
  CHECK_FALSE(load.accesses[0].write);
  CHECK(load.pure_load);
  CHECK_FALSE(load.writes_memory);

  // sar [r10d*8+0x632], 1: base 5 without displacement bits is no base, whatever REX.B says.
  const Insn no_base = at_here({0x67, 0x47, 0xd1, 0x3c, 0xd5, 0x32, 0x06, 0, 0});
  REQUIRE(no_base.access_count == 1);
  CHECK(no_base.accesses[0].base == kNoGpr);
  CHECK(no_base.accesses[0].index == kR10);

  const Insn add = at_here({0x01, 0x45, 0xf8});  // add [rbp-8], eax
  REQUIRE(add.access_count == 1);
  CHECK(add.accesses[0].read);
  CHECK(add.accesses[0].write);
  CHECK(add.accesses[0].displacement == -8);
  CHECK(add.writes_memory);
  CHECK_FALSE(add.pure_load);

  CHECK(at_here({0x48, 0x8d, 0x04, 0x24}).access_count == 0);  // lea rax, [rsp]
  CHECK_FALSE(at_here({0x53}).writes_memory);                  // push rbx
  CHECK(at_here({0xa4}).writes_memory);                        // movsb
  CHECK(at_here({0xa4}).access_count == 2);
  CHECK_FALSE(at_here({0xac}).writes_memory);    // lodsb
  CHECK(at_here({0x0f, 0xb6, 0x00}).pure_load);  // movzx eax, byte [rax]
  CHECK_FALSE(at_here({0x03, 0x00}).pure_load);  // add eax, [rax]
  CHECK_FALSE(at_here({0x58}).pure_load);        // pop rax
  // vpgatherdd xmm3, [r15+xmm1*4], xmm2: the index is no general-purpose register.
  const Insn gather = at_here({0xc4, 0xc2, 0x69, 0x90, 0x1c, 0x8f});
  REQUIRE(gather.access_count == 1);
  CHECK(gather.accesses[0].base == kR15);
  CHECK(gather.accesses[0].index == kNoGpr);
  CHECK(gather.accesses[0].vector_index);
}

TEST_CASE("whether address and size tell which bytes are accessed") {
  const auto is_certain = [](std::initializer_list<uint8_t> bytes) {
    const Insn insn = at_here(bytes);
    REQUIRE(insn.access_count > 0);
    return insn.accesses[0].certain;
  };
  CHECK(is_certain({0x8b, 0x03}));                                // mov eax, [rbx]
  CHECK(is_certain({0xa4}));                                      // movsb
  CHECK_FALSE(is_certain({0xf3, 0xa4}));                          // rep movsb
  CHECK_FALSE(is_certain({0xf2, 0xae}));                          // repne scasb
  CHECK(is_certain({0x0f, 0xba, 0x23, 0x05}));                    // bt dword [rbx], 5
  CHECK_FALSE(is_certain({0x0f, 0xa3, 0x03}));                    // bt [rbx], eax
  CHECK(is_certain({0xc5, 0xfc, 0x11, 0x03}));                    // vmovups [rbx], ymm0
  CHECK_FALSE(is_certain({0xc4, 0xe2, 0x7d, 0x2e, 0x03}));        // vmaskmovps [rbx], ymm0, ymm0
  CHECK_FALSE(is_certain({0x62, 0xf1, 0x7c, 0x49, 0x11, 0x03}));  // vmovups [rbx]{k1}, zmm0
  CHECK_FALSE(is_certain({0xc4, 0xc2, 0xed, 0x92, 0x04, 0xcf}));  // vgatherqpd ymm0, [r15+ymm1*8]
  CHECK(at_here({0x0f, 0x18, 0x0b}).accesses[0].hint);            // prefetcht0 [rbx]
  CHECK_FALSE(at_here({0x8b, 0x03}).accesses[0].hint);
}

TEST_CASE("what is stored, where a register or the encoding tells it") {
  using How = decoder::StoredOperand::How;
  const auto stored = [](std::initializer_list<uint8_t> bytes) {
    return decoder::decode(std::span(bytes.begin(), bytes.size()), GuestAddr(0x1000)).stored;
  };
  CHECK(stored({0x48, 0x89, 0x03}).how == How::move);  // mov [rbx], rax
  CHECK(stored({0x48, 0x89, 0x03}).reg == decoder::kRax);
  CHECK(stored({0x48, 0x89, 0x03}).bits == 64);
  CHECK(stored({0x88, 0x23}).reg == decoder::kRax);  // mov [rbx], ah
  CHECK(stored({0x88, 0x23}).shift == 8);
  CHECK(stored({0x44, 0x88, 0x3b}).reg == decoder::kR15);         // mov [rbx], r15b
  CHECK(stored({0x66, 0xc7, 0x03, 0xff, 0xff}).immediate == -1);  // mov word [rbx], -1
  CHECK(stored({0x66, 0xc7, 0x03, 0xff, 0xff}).bits == 16);
  CHECK(stored({0x66, 0xc7, 0x03, 0xff, 0xff}).reg == decoder::kNoGpr);
  CHECK(stored({0x09, 0x03}).how == How::set_bits);                // or [rbx], eax
  CHECK(stored({0x83, 0x23, 0x04}).how == How::clear_bits);        // and dword [rbx], 4
  CHECK(stored({0x83, 0x2b, 0x04}).how == How::change);            // sub dword [rbx], 4
  CHECK(stored({0xf0, 0x09, 0x03}).how == How::none);              // lock or [rbx], eax
  CHECK(stored({0x8b, 0x03}).how == How::none);                    // mov eax, [rbx]
  CHECK(stored({0x11, 0x03}).how == How::none);                    // adc [rbx], eax
  CHECK(stored({0x8c, 0x1b}).how == How::none);                    // mov [rbx], ds
  CHECK(stored({0xa3, 0, 0, 0, 0, 0, 0, 0, 0}).how == How::none);  // mov [0], eax
  CHECK(stored({0x0f, 0x11, 0x03}).how == How::none);              // movups [rbx], xmm0
  CHECK(stored({0x0f, 0x38, 0xf1, 0x03}).how == How::none);        // movbe [rbx], eax
}

TEST_CASE("loads are timed by what loads, and what is slow by itself is not") {
  using decoder::LoadKind;
  const struct {
    std::vector<uint8_t> bytes;
    LoadKind kind;
  } rows[] = {
      {{0x48, 0x8b, 0x00}, LoadKind::move},                    // mov rax, [rax]
      {{0x0f, 0xb6, 0x00}, LoadKind::move},                    // movzx eax, byte [rax]
      {{0x03, 0x00}, LoadKind::operand},                       // add eax, [rax]
      {{0x01, 0x00}, LoadKind::operand},                       // add [rax], eax
      {{0x3b, 0x00}, LoadKind::operand},                       // cmp eax, [rax]
      {{0xff, 0x30}, LoadKind::operand},                       // push [rax]
      {{0x0f, 0x44, 0x00}, LoadKind::operand},                 // cmove eax, [rax]
      {{0x0f, 0x28, 0x00}, LoadKind::vector},                  // movaps xmm0, [rax]
      {{0xf2, 0x0f, 0x10, 0x00}, LoadKind::vector},            // movsd xmm0, [rax]
      {{0xc5, 0xfd, 0x6f, 0x00}, LoadKind::vector},            // vmovdqa ymm0, [rax]
      {{0xf2, 0x0f, 0x58, 0x00}, LoadKind::arithmetic},        // addsd xmm0, [rax]
      {{0xc4, 0xe2, 0xe9, 0xb8, 0x00}, LoadKind::arithmetic},  // vfmadd231pd xmm0, xmm2, [rax]
      {{0xdc, 0x00}, LoadKind::arithmetic},                    // fadd qword [rax]
      {{0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f},
       LoadKind::gather},                                  // vpgatherdd ymm0, [rdi+ymm1*4], ymm2
      {{0xf0, 0x48, 0x0f, 0xc1, 0x07}, LoadKind::atomic},  // lock xadd [rdi], rax
      {{0x87, 0x07}, LoadKind::atomic},                    // xchg [rdi], eax
      {{0x58}, LoadKind::stack},                           // pop rax
      {{0xc9}, LoadKind::stack},                           // leave
      {{0xc3}, LoadKind::stack},                           // ret
      {{0xff, 0x10}, LoadKind::branch},                    // call [rax]
      {{0xff, 0x20}, LoadKind::branch},                    // jmp [rax]
      {{0xff, 0xd0}, LoadKind::none},                      // call rax
      {{0xe8, 0, 0, 0, 0}, LoadKind::none},                // call
      {{0x50}, LoadKind::none},                            // push rax
      {{0x89, 0x00}, LoadKind::none},                      // mov [rax], eax
      {{0x48, 0x8d, 0x00}, LoadKind::none},                // lea rax, [rax]
      {{0xf7, 0x30}, LoadKind::none},                      // div [rax]
      {{0xf2, 0x0f, 0x5e, 0x00}, LoadKind::none},          // divsd xmm0, [rax]
      {{0xa4}, LoadKind::none},                            // movsb
      {{0x0f, 0x18, 0x08}, LoadKind::none},                // prefetcht0 [rax]
      {{0x0f, 0xae, 0x10}, LoadKind::none},                // ldmxcsr [rax]
  };
  for (const auto& row : rows) {
    const Insn insn = decode(row.bytes, kHere);
    CAPTURE(disassemble(row.bytes, kHere));
    CHECK(static_cast<int>(insn.load) == static_cast<int>(row.kind));
    if (insn.load != LoadKind::none) CHECK(insn.accesses[insn.load_access].read);
  }
}

TEST_CASE("a prefetch is known from a load") {
  CHECK(at_here({0x0f, 0x18, 0x08}).prefetches);        // prefetcht0 [rax]
  CHECK(at_here({0x0f, 0x0d, 0x08}).prefetches);        // prefetchw [rax]
  CHECK(!at_here({0x48, 0x8b, 0x00}).prefetches);       // mov rax, [rax]
}

TEST_CASE("the processor says how large an XSAVE area is") {
  const auto bytes = [](std::initializer_list<uint8_t> code) {
    return decode_operation(at_here(code)).memory_bytes;
  };
  CHECK(bytes({0x0f, 0xc7, 0x64, 0x24, 0x40}) == 0);        // xsavec [rsp+64]
  CHECK(bytes({0x48, 0x0f, 0xae, 0x64, 0x24, 0x40}) == 0);  // xsave64
  CHECK(bytes({0x0f, 0xae, 0x74, 0x24, 0x40}) == 0);        // xsaveopt
  CHECK(bytes({0x48, 0x0f, 0xae, 0x6c, 0x24, 0x40}) == 0);  // xrstor64
  CHECK(bytes({0x0f, 0xae, 0x44, 0x24, 0x40}) == 512);      // fxsave
  CHECK(bytes({0x48, 0x8b, 0x04, 0x24}) == 8);              // mov rax, [rsp]
}

TEST_CASE("a hint uses none of its operands") {
  // nop [r15+r15], nop r14w, r15w: other registers there could mean something (rdssp).
  for (const Insn& insn : {at_here({0x47, 0x0f, 0x1f, 0x04, 0x3f}),
                           at_here({0xf3, 0x45, 0x0f, 0x1e, 0xfe}), at_here({0x90})}) {
    CHECK(static_cast<int>(insn.kind) == static_cast<int>(InsnKind::ordinary));
    CHECK(int{insn.access_count} == 0);
    CHECK(int{insn.r15_field_count} == 0);
    CHECK(insn.reads == 0);
    CHECK(insn.writes == 0);
  }
}

TEST_CASE("rip-relative operands: target, and where the fields are") {
  const Insn mov = at_here({0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00});  // mov rax, [rip+16]
  CHECK(mov.rip_relative);
  CHECK(mov.rip_target == kHere + 7 + 16);
  CHECK(mov.modrm_offset == 2);
  CHECK(mov.displacement_offset == 3);
  CHECK(mov.rex_offset == 0);
  CHECK_FALSE(mov.base_bit);
  // The immediate behind the displacement counts for the address.
  const Insn cmp = at_here({0x81, 0x3d, 0xf0, 0xff, 0xff, 0xff, 1, 2, 3, 4});
  CHECK(cmp.rip_target == kHere + 10 - 16);
  CHECK(cmp.rex_offset == 0xff);
  // A base bit that rip ignores would matter for the register that replaces rip.
  CHECK(at_here({0x49, 0x8b, 0x05, 0, 0, 0, 0}).base_bit);
  CHECK_FALSE(at_here({0xc5, 0xf8, 0x28, 0x05, 0, 0, 0, 0}).base_bit);  // vmovaps xmm0
  CHECK(at_here({0xc4, 0xc1, 0x78, 0x28, 0x05, 0, 0, 0, 0}).base_bit);
  CHECK_FALSE(at_here({0xc4, 0xe1, 0x78, 0x28, 0x05, 0, 0, 0, 0}).base_bit);
  CHECK_FALSE(at_here({0x62, 0xf1, 0x7c, 0x48, 0x28, 0x05, 0, 0, 0, 0}).base_bit);
  CHECK(at_here({0x62, 0xd1, 0x7c, 0x48, 0x28, 0x05, 0, 0, 0, 0}).base_bit);
  const Insn lea = at_here({0x48, 0x8d, 0x3d, 0, 0x10, 0, 0});
  CHECK(lea.lea64);
  CHECK(lea.rip_target == kHere + 7 + 0x1000);
  CHECK_FALSE(at_here({0x8d, 0x3d, 0, 0x10, 0, 0}).lea64);
}

TEST_CASE("what a register holds afterwards, told from what one held before") {
  struct Row {
    const char* what;
    std::vector<uint8_t> bytes;
    RegisterSum sum;
  };
  const Row rows[] = {
      {"push rbx", {0x53}, {kRsp, kRsp, -8}},
      {"push 5", {0x6a, 0x05}, {kRsp, kRsp, -8}},
      {"push ax", {0x66, 0x50}, {kRsp, kRsp, -2}},
      {"push [rsp+8]", {0xff, 0x74, 0x24, 0x08}, {kRsp, kRsp, -8}},
      {"pop r15", {0x41, 0x5f}, {kRsp, kRsp, 8}},
      {"pop rsp", {0x5c}, {}},
      {"pop [rax]", {0x8f, 0x00}, {kRsp, kRsp, 8}},
      {"leave", {0xc9}, {kRsp, kRbp, 8}},
      {"call +0", {0xe8, 0, 0, 0, 0}, {kRsp, kRsp, -8}},
      {"call rax", {0xff, 0xd0}, {}},
      {"ret", {0xc3}, {}},
      {"sub rsp, 0x18", {0x48, 0x83, 0xec, 0x18}, {kRsp, kRsp, -0x18}},
      {"add rsp, -128", {0x48, 0x83, 0xc4, 0x80}, {kRsp, kRsp, -128}},
      {"add rax, -1, long", {0x48, 0x05, 0xff, 0xff, 0xff, 0xff}, {kRax, kRax, -1}},
      {"add eax, 1", {0x83, 0xc0, 0x01}, {}},
      {"add rax, rcx", {0x48, 0x01, 0xc8}, {}},
      {"add [rax], 1", {0x48, 0x83, 0x00, 0x01}, {}},
      {"adc rax, 1", {0x48, 0x83, 0xd0, 0x01}, {}},
      {"inc r9", {0x49, 0xff, 0xc1}, {kR9, kR9, 1}},
      {"dec rcx", {0x48, 0xff, 0xc9}, {kRcx, kRcx, -1}},
      {"dec ecx", {0xff, 0xc9}, {}},
      {"mov rbp, rsp", {0x48, 0x89, 0xe5}, {kRbp, kRsp, 0}},
      {"mov ebp, esp", {0x89, 0xe5}, {}},
      {"mov rax, [rcx]", {0x48, 0x8b, 0x01}, {}},
      {"lea rdx, [rbx+r8*1]", {0x4a, 0x8d, 0x14, 0x03}, {}},
      {"lea rdx, [r12-4]", {0x49, 0x8d, 0x54, 0x24, 0xfc}, {kRdx, kR12, -4}},
      {"lea edx, [rbx-4]", {0x8d, 0x53, 0xfc}, {}},
      {"lea rdx, [ebx-4]", {0x67, 0x48, 0x8d, 0x53, 0xfc}, {}},
      {"lea rdx, [rip+4]", {0x48, 0x8d, 0x15, 4, 0, 0, 0}, {}},
      {"xchg rax, rbx", {0x48, 0x93}, {}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const Insn insn = decode(row.bytes, kHere);
    REQUIRE(insn.length == row.bytes.size());
    CHECK(insn.sum.to == row.sum.to);
    CHECK(insn.sum.from == row.sum.from);
    CHECK(insn.sum.addend == row.sum.addend);
  }
  const Insn copy = at_here({0x48, 0x89, 0xe5});
  CHECK(copy.known_after(mask({kRsp, kRax})) == mask({kRsp, kRax, kRbp}));
  CHECK(copy.known_after(mask({kRbp, kRax})) == mask({kRax}));
}

TEST_CASE("text") {
  const uint8_t mov[] = {0x48, 0x8b, 0x43, 0x08};
  CHECK(disassemble(mov, kHere) == "mov rax, [rbx+0x08]");
  const uint8_t bad[] = {0x06};
  CHECK(disassemble(bad, kHere) == "(bad)");
}

struct ElementRow {
  const char* what;
  std::vector<uint8_t> bytes;
  ElementResult result;
};

constexpr auto kVector = ElementResult::Register::vector;
constexpr auto kMask = ElementResult::Register::mask;

const ElementRow kElements[] = {
    {"addsd xmm1, xmm2", {0xf2, 0x0f, 0x58, 0xca}, {kVector, 1, ElementType::f64, 64, 1}},
    {"movsd xmm9, [rsi]", {0xf2, 0x44, 0x0f, 0x10, 0x0e}, {kVector, 9, ElementType::f64, 64, 1}},
    {"movss xmm1, [rsi]", {0xf3, 0x0f, 0x10, 0x0e}, {kVector, 1, ElementType::f32, 32, 1}},
    {"cvtsi2sd xmm1, rax", {0xf2, 0x48, 0x0f, 0x2a, 0xc8}, {kVector, 1, ElementType::f64, 64, 1}},
    {"cvtsd2ss xmm1, xmm2", {0xf2, 0x0f, 0x5a, 0xca}, {kVector, 1, ElementType::f32, 32, 1}},
    {"sqrtsd xmm15, xmm2", {0xf2, 0x44, 0x0f, 0x51, 0xfa}, {kVector, 15, ElementType::f64, 64, 1}},
    {"roundsd xmm1, xmm2, 4",
     {0x66, 0x0f, 0x3a, 0x0b, 0xca, 0x04},
     {kVector, 1, ElementType::f64, 64, 1}},
    {"roundps xmm1, xmm2, 4",
     {0x66, 0x0f, 0x3a, 0x08, 0xca, 0x04},
     {kVector, 1, ElementType::f32, 32, 4}},
    {"vfmadd213ss xmm1, xmm2, xmm3",
     {0xc4, 0xe2, 0x69, 0xa9, 0xcb},
     {kVector, 1, ElementType::f32, 32, 1}},
    {"vaddsd xmm17, xmm2, xmm3",
     {0x62, 0xe1, 0xef, 0x08, 0x58, 0xcb},
     {kVector, 17, ElementType::f64, 64, 1}},
    {"addpd xmm1, xmm2", {0x66, 0x0f, 0x58, 0xca}, {kVector, 1, ElementType::f64, 64, 2}},
    {"addps xmm1, xmm2", {0x0f, 0x58, 0xca}, {kVector, 1, ElementType::f32, 32, 4}},
    {"vaddps zmm31, zmm2, zmm3",
     {0x62, 0x61, 0x6c, 0x48, 0x58, 0xfb},
     {kVector, 31, ElementType::f32, 32, 16}},
    {"vaddpd ymm1, ymm2, ymm3", {0xc5, 0xed, 0x58, 0xcb}, {kVector, 1, ElementType::f64, 64, 4}},
    {"vbroadcastsd ymm1, [rsi]",
     {0xc4, 0xe2, 0x7d, 0x19, 0x0e},
     {kVector, 1, ElementType::f64, 64, 4}},
    {"movddup xmm1, [rsi]", {0xf2, 0x0f, 0x12, 0x0e}, {kVector, 1, ElementType::f64, 64, 2}},
    {"cmpltsd xmm1, xmm2",
     {0xf2, 0x0f, 0xc2, 0xca, 0x01},
     {kVector, 1, ElementType::integer, 64, 1}},
    {"cmpltps xmm1, xmm2", {0x0f, 0xc2, 0xca, 0x01}, {kVector, 1, ElementType::integer, 32, 4}},
    {"movaps xmm1, xmm2", {0x0f, 0x28, 0xca}, {kVector, 1, ElementType::integer, 64, 2}},
    {"movapd xmm1, xmm2", {0x66, 0x0f, 0x28, 0xca}, {kVector, 1, ElementType::f64, 64, 2}},
    {"vmovdqu ymm1, [rsi]", {0xc5, 0xfe, 0x6f, 0x0e}, {kVector, 1, ElementType::integer, 64, 4}},
    {"xorps xmm1, xmm2", {0x0f, 0x57, 0xca}, {kVector, 1, ElementType::integer, 64, 2}},
    {"xorpd xmm1, xmm2", {0x66, 0x0f, 0x57, 0xca}, {kVector, 1, ElementType::f64, 64, 2}},
    {"pand xmm1, xmm2", {0x66, 0x0f, 0xdb, 0xca}, {kVector, 1, ElementType::integer, 64, 2}},
    {"paddb xmm1, xmm2", {0x66, 0x0f, 0xfc, 0xca}, {kVector, 1, ElementType::integer, 8, 16}},
    {"paddw xmm1, xmm2", {0x66, 0x0f, 0xfd, 0xca}, {kVector, 1, ElementType::integer, 16, 8}},
    {"vpaddd ymm1, ymm2, ymm3",
     {0xc5, 0xed, 0xfe, 0xcb},
     {kVector, 1, ElementType::integer, 32, 8}},
    {"paddq xmm1, xmm2", {0x66, 0x0f, 0xd4, 0xca}, {kVector, 1, ElementType::integer, 64, 2}},
    {"pabsd xmm1, xmm2", {0x66, 0x0f, 0x38, 0x1e, 0xca}, {kVector, 1, ElementType::integer, 32, 4}},
    {"pshufd xmm1, xmm2, 5",
     {0x66, 0x0f, 0x70, 0xca, 0x05},
     {kVector, 1, ElementType::integer, 32, 4}},
    {"psrldq xmm1, 3", {0x66, 0x0f, 0x73, 0xd9, 0x03}, {kVector, 1, ElementType::integer, 64, 2}},
    {"cvttpd2dq xmm1, xmm2", {0x66, 0x0f, 0xe6, 0xca}, {kVector, 1, ElementType::integer, 32, 4}},
    {"vmovdqu8 zmm1, [rsi]",
     {0x62, 0xf1, 0x7f, 0x48, 0x6f, 0x0e},
     {kVector, 1, ElementType::integer, 8, 64}},
    {"movd xmm1, eax", {0x66, 0x0f, 0x6e, 0xc8}, {kVector, 1, ElementType::integer, 32, 1}},
    {"movq xmm1, rax", {0x66, 0x48, 0x0f, 0x6e, 0xc8}, {kVector, 1, ElementType::integer, 64, 1}},
    {"vcvtps2ph xmm1, xmm2, 0",
     {0xc4, 0xe3, 0x79, 0x1d, 0xd1, 0x00},
     {kVector, 1, ElementType::integer, 16, 8}},
    {"pcmpistrm xmm1, xmm2, 3",
     {0x66, 0x0f, 0x3a, 0x62, 0xca, 0x03},
     {kVector, 0, ElementType::integer, 64, 2}},
    {"kmovw k1, [rsi]", {0xc5, 0xf8, 0x90, 0x0e}, {kMask, 1, ElementType::integer, 64, 1}},
    {"vpcmpub k2, zmm1, zmm2, 1",
     {0x62, 0xf3, 0x75, 0x48, 0x3e, 0xd2, 0x01},
     {kMask, 2, ElementType::integer, 64, 1}},
    {"cvtsd2si rax, xmm1", {0xf2, 0x48, 0x0f, 0x2d, 0xc1}, {}},
    {"movq rax, xmm1", {0x66, 0x48, 0x0f, 0x7e, 0xc8}, {}},
    {"ucomisd xmm1, xmm2", {0x66, 0x0f, 0x2e, 0xca}, {}},
    {"movsd [rsi], xmm1", {0xf2, 0x0f, 0x11, 0x0e}, {}},
    {"movq mm1, [rsi]", {0x0f, 0x6f, 0x0e}, {}},
    {"fld qword ptr [rsi]", {0xdd, 0x06}, {}},
    {"kmovq rax, k1", {0xc4, 0xe1, 0xfb, 0x93, 0xc1}, {}},
    {"vzeroupper", {0xc5, 0xf8, 0x77}, {}},
    {"pmovmskb eax, xmm1", {0x66, 0x0f, 0xd7, 0xc1}, {}},
};

TEST_CASE("what is left in vector and mask registers") {
  for (const ElementRow& row : kElements) {
    CAPTURE(row.what);
    const Insn insn = decode(row.bytes, kHere);
    REQUIRE(insn.length == row.bytes.size());
    const ElementResult& found = insn.element_result;
    CHECK(found.kind == row.result.kind);
    CHECK(found.reg == row.result.reg);
    CHECK(found.type == row.result.type);
    CHECK(found.bits == row.result.bits);
    CHECK(found.elements == row.result.elements);
  }
}

struct ConstantRow {
  const char* what;
  std::vector<uint8_t> bytes;
  bool constant;
  bool loads_static;
};

const ConstantRow kConstants[] = {
    {"movsd xmm9, [rip+0x100]",
     {0xf2, 0x44, 0x0f, 0x10, 0x0d, 0x00, 0x01, 0x00, 0x00},
     false,
     true},
    {"vbroadcastsd ymm9, [rip+0x100]",
     {0xc4, 0x62, 0x7d, 0x19, 0x0d, 0x00, 0x01, 0x00, 0x00},
     false,
     true},
    {"movapd xmm9, [rip+0x100]",
     {0x66, 0x44, 0x0f, 0x28, 0x0d, 0x00, 0x01, 0x00, 0x00},
     false,
     true},
    {"movq xmm1, [rip+0x100]", {0xf3, 0x0f, 0x7e, 0x0d, 0x00, 0x01, 0x00, 0x00}, false, true},
    {"mulsd xmm1, [rip+0x100]", {0xf2, 0x0f, 0x59, 0x0d, 0x00, 0x01, 0x00, 0x00}, false, false},
    {"vmovapd zmm9{k1}, [rip+0x100]",
     {0x62, 0x71, 0xfd, 0x49, 0x28, 0x0d, 0x00, 0x01, 0x00, 0x00},
     false,
     false},
    {"movhpd xmm1, [rip+0x100]", {0x66, 0x0f, 0x16, 0x0d, 0x00, 0x01, 0x00, 0x00}, false, false},
    {"vmovhpd xmm1, xmm2, [rip+0x100]",
     {0xc5, 0xe9, 0x16, 0x0d, 0x00, 0x01, 0x00, 0x00},
     false,
     false},
    {"movsd xmm1, [rsi]", {0xf2, 0x0f, 0x10, 0x0e}, false, false},
    {"mov rax, [rip+0x100]", {0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00}, false, false},
    {"pxor xmm1, xmm1", {0x66, 0x0f, 0xef, 0xc9}, true, false},
    {"vxorps xmm1, xmm2, xmm2", {0xc5, 0xe8, 0x57, 0xca}, true, false},
    {"pcmpeqd xmm1, xmm1", {0x66, 0x0f, 0x76, 0xc9}, true, false},
    {"kxnorw k1, k2, k2", {0xc5, 0xec, 0x46, 0xca}, true, false},
    {"pxor xmm1, xmm2", {0x66, 0x0f, 0xef, 0xca}, false, false},
    {"vpcmpeqd k1, ymm1, ymm1", {0x62, 0xf1, 0x75, 0x28, 0x76, 0xc9}, false, false},
};

TEST_CASE("what the code alone says of a vector register, and what is only loaded") {
  for (const ConstantRow& row : kConstants) {
    CAPTURE(row.what);
    const Insn insn = decode(row.bytes, kHere);
    REQUIRE(insn.length == row.bytes.size());
    CHECK(insn.constant_result == row.constant);
    CHECK(insn.loads_static == row.loads_static);
  }
}

}  // namespace
}  // namespace shadowprof::decoder
