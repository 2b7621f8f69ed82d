// SPDX-License-Identifier: MIT
//
// Instructions that name r15 must be the same instruction with another register after patching:
// by hand for each class of encodings, and at random for what nobody thinks of.
#include <doctest/doctest.h>

#include <vector>

#include "../fuzz/instructions.h"
#include "patch.h"

namespace shadowprof::decoder_test {
namespace {

constexpr GuestAddr kHere(0x401000);
constexpr decoder::Gpr kSubstitutes[] = {8, 9, 10, 11, 14};

struct Row {
  const char* text;
  std::vector<uint8_t> bytes;
  int fields;
};

const Row kRows[] = {
    // legacy: reg, rm, base, index, both, all three
    {"mov r15, rax", {0x49, 0x89, 0xc7}, 1},
    {"mov rax, r15", {0x4c, 0x89, 0xf8}, 1},
    {"mov r15b, r15b", {0x45, 0x88, 0xff}, 2},
    {"add r15d, [r15+r15*2+0x08]", {0x47, 0x03, 0x7c, 0x7f, 0x08}, 3},
    {"mov rax, [r15]", {0x49, 0x8b, 0x07}, 1},
    {"mov rax, [r15+0x1000]", {0x49, 0x8b, 0x87, 0x00, 0x10, 0x00, 0x00}, 1},
    {"mov rax, [rsp+r15*1]", {0x4a, 0x8b, 0x04, 0x3c}, 1},
    {"movzx r15d, r15w", {0x45, 0x0f, 0xb7, 0xff}, 2},
    {"imul r15, r15, 0x03", {0x4d, 0x6b, 0xff, 0x03}, 2},
    {"cmpxchg [r15], r15", {0x4d, 0x0f, 0xb1, 0x3f}, 2},
    {"lea r15, [r15+r15*8]", {0x4f, 0x8d, 0x3c, 0xff}, 3},
    {"movd r15d, xmm0", {0x66, 0x41, 0x0f, 0x7e, 0xc7}, 1},
    {"crc32 r15d, r15b", {0xf2, 0x45, 0x0f, 0x38, 0xf0, 0xff}, 2},
    {"shld r15, r15, cl", {0x4d, 0x0f, 0xa5, 0xff}, 2},
    {"jmp r15", {0x41, 0xff, 0xe7}, 1},
    {"call [r15+0x08]", {0x41, 0xff, 0x57, 0x08}, 1},
    // in the opcode, with and without an immediate
    {"push r15", {0x41, 0x57}, 1},
    {"pop r15", {0x41, 0x5f}, 1},
    {"bswap r15", {0x49, 0x0f, 0xcf}, 1},
    {"mov r15, 0x1122334455667788",
     {0x49, 0xbf, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11},
     1},
    {"mov r15b, 0x05", {0x41, 0xb7, 0x05}, 1},
    {"xchg r15, rax", {0x49, 0x97}, 1},
    // VEX of two and three bytes: reg, rm and vvvv
    {"vmovq xmm0, r15", {0xc4, 0xc1, 0xf9, 0x6e, 0xc7}, 1},
    {"vmovmskps r15d, xmm1", {0xc5, 0x78, 0x50, 0xf9}, 1},
    {"andn r15, r15, r15", {0xc4, 0x42, 0x80, 0xf2, 0xff}, 3},
    {"blsr r15, r15", {0xc4, 0xc2, 0x80, 0xf3, 0xcf}, 2},
    {"shlx rax, [r15], r15", {0xc4, 0xc2, 0x81, 0xf7, 0x07}, 2},
    {"mulx r15, r15, [r15+r15*1]", {0xc4, 0x02, 0x83, 0xf6, 0x3c, 0x3f}, 4},
    {"rorx r15, r15, 0x07", {0xc4, 0x43, 0xfb, 0xf0, 0xff, 0x07}, 2},
    {"kmovq k1, r15", {0xc4, 0xc1, 0xfb, 0x92, 0xcf}, 1},
    // EVEX
    {"vmovdqu64 zmm0, [r15]", {0x62, 0xd1, 0xfe, 0x48, 0x6f, 0x07}, 1},
    {"vmovd xmm16, r15d", {0x62, 0xc1, 0x7d, 0x08, 0x6e, 0xc7}, 1},
    {"vpbroadcastq zmm1, r15", {0x62, 0xd2, 0xfd, 0x48, 0x7c, 0xcf}, 1},
    {"vcvttsd2usi r15, xmm1", {0x62, 0x71, 0xff, 0x08, 0x78, 0xf9}, 1},
};

void check_all_substitutes(const decoder::Insn& insn, const std::string& text) {
  for (const decoder::Gpr substitute : kSubstitutes) {
    const auto bytes = patched(insn, substitute);
    const decoder::Insn other = decoder::decode(bytes, insn.address);
    const std::string now = decoder::disassemble(bytes, insn.address);
    // The tables' name for what processors execute as xchg r8, rax (insn_test.cc).
    if (now != "pause") CHECK(now == renamed(text, substitute));
    CHECK(other.length == insn.length);
    CHECK_FALSE(other.uses(decoder::kR15));
  }
}

TEST_CASE("r15 in every field of every class of encodings") {
  for (const Row& row : kRows) {
    const decoder::Insn insn = decoder::decode(row.bytes, kHere);
    const std::string text = decoder::disassemble(row.bytes, kHere);
    CAPTURE(row.text);
    CAPTURE(text);
    CHECK(insn.length == row.bytes.size());
    CHECK(int{insn.r15_field_count} == row.fields);
    CHECK(insn.uses(decoder::kR15));
    check_all_substitutes(insn, text);
  }
}

TEST_CASE("random instructions with r15") {
  fuzz::Random random(1);
  int checked = 0;
  for (int i = 0; i < 200'000; i++) {
    const auto made = fuzz::random_insn(random);
    if (!made || !made->insn.uses(decoder::kR15)) continue;
    const std::string text = decoder::disassemble(made->insn.bytes, GuestAddr());
    if (text.find("r15") == std::string::npos) continue;
    CAPTURE(text);
    check_all_substitutes(made->insn, text);
    checked++;
  }
  CHECK(checked > 1000);
}

}  // namespace
}  // namespace shadowprof::decoder_test
