// SPDX-License-Identifier: MIT
//
// What decodes most instructions quickly says the same of each of them as Zydis.
#include "decoder/plain_insn.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/split_mix.h"
#include "decoder/insn.h"
#include "decoder/operation.h"

namespace shadowprof::decoder {
namespace {

constexpr GuestAddr kPlace(0x7f12'3456'7000);

std::string hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, " "));
}

// Which facts are not the same, for a message.
std::string difference(const Insn& a, const Insn& b) {
  std::string text;
  const auto look = [&](const char* name, const auto& one, const auto& other) {
    if (!(one == other)) text += fmt::format(" {}", name);
  };
  look("length", a.length, b.length);
  look("kind", a.kind, b.kind);
  look("reads", a.reads, b.reads);
  look("writes", a.writes, b.writes);
  look("result", a.result, b.result);
  look("constant_result", a.constant_result, b.constant_result);
  look("sum", a.sum, b.sum);
  look("compared", a.compared, b.compared);
  look("stored", a.stored, b.stored);
  look("flags_read", a.flags_read, b.flags_read);
  look("flags_written", a.flags_written, b.flags_written);
  look("accesses", a.accesses, b.accesses);
  look("may_fault", a.may_fault, b.may_fault);
  look("load", a.load, b.load);
  look("r15_fields", a.r15_fields, b.r15_fields);
  look("opcode_offset", a.opcode_offset, b.opcode_offset);
  look("immediate_bytes", a.immediate_bytes, b.immediate_bytes);
  look("rip_target", a.rip_target, b.rip_target);
  look("branch_target", a.branch_target, b.branch_target);
  return text.empty() ? " something else" : text;
}

std::string difference(const Operation& a, const Operation& b) {
  std::string text;
  const auto look = [&](const char* name, const auto& one, const auto& other) {
    if (!(one == other)) text += fmt::format(" {}", name);
  };
  look("code", a.code, b.code);
  look("bits", a.bits, b.bits);
  look("variant", a.variant, b.variant);
  look("operands", a.operands, b.operands);
  look("immediate", a.immediate, b.immediate);
  look("base", a.base, b.base);
  look("index", a.index, b.index);
  look("scale", a.scale_shift, b.scale_shift);
  look("displacement", a.displacement, b.displacement);
  look("reads_memory", a.reads_memory, b.reads_memory);
  look("writes_memory", a.writes_memory, b.writes_memory);
  look("memory_bytes", a.memory_bytes, b.memory_bytes);
  return text.empty() ? " something else" : text;
}

// Is it one that is decoded quickly?
bool is_plain_and_right(std::span<const uint8_t> bytes) {
  Insn plain;
  if (!decode_plain(bytes, kPlace, plain)) return false;
  const Insn right = decode_by_zydis(bytes, kPlace);
  if (plain != right)
    FAIL_CHECK(hex(bytes) << ": " << disassemble(bytes, kPlace) << ":" << difference(plain, right));
  Operation operation;
  if (!plain_operation(right, operation)) return true;
  const Operation right_one = decode_operation_by_zydis(right);
  if (operation != right_one)
    FAIL_CHECK(hex(bytes) << ": " << disassemble(bytes, kPlace) << ": operation"
                          << difference(operation, right_one));
  return true;
}

std::vector<std::span<const uint8_t>> code_of_this_process() {
  std::vector<std::span<const uint8_t>> code;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        for (size_t i = 0; i < info->dlpi_phnum; i++) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          // NOLINTNEXTLINE(performance-no-int-to-ptr)
          const auto* start = reinterpret_cast<const uint8_t*>(info->dlpi_addr + part.p_vaddr);
          static_cast<std::vector<std::span<const uint8_t>>*>(to)->push_back({start, part.p_memsz});
        }
        return 0;
      },
      &code);
  return code;
}

}  // namespace

TEST_CASE("each opcode with each modrm byte is what Zydis says, or left to it") {
  uint64_t random = 7;
  size_t plain = 0;
  const std::array<uint8_t, 6> sibs = {0x24, 0x65, 0x25, 0xe5, 0xfc, 0x3f};
  std::vector<uint8_t> prefixes = {0};
  for (unsigned rex = 0x40; rex < 0x50; rex++) prefixes.push_back(static_cast<uint8_t>(rex));
  for (const uint8_t rex : prefixes) {
    for (unsigned opcode = 0; opcode < 512; opcode++) {
      for (unsigned modrm = 0; modrm < 256; modrm++) {
        const bool has_sib = modrm < 0xc0 && (modrm & 7) == 4;
        for (const uint8_t sib : std::span(sibs).first(has_sib ? sibs.size() : 1)) {
          std::array<uint8_t, kMaxInsnBytes> bytes{};
          size_t at = 0;
          if (rex != 0) bytes[at++] = rex;
          if (opcode >= 256) bytes[at++] = 0x0f;
          bytes[at++] = static_cast<uint8_t>(opcode);
          bytes[at++] = static_cast<uint8_t>(modrm);
          if (has_sib) bytes[at++] = sib;
          const uint64_t rest = split_mix(random);
          for (size_t i = at; i < bytes.size(); i++)
            bytes[i] = static_cast<uint8_t>(rest >> 8 * ((i - at) % 8));
          if (is_plain_and_right(bytes)) plain++;
        }
      }
    }
  }
  CHECK(is_plain_and_right(std::array<uint8_t, 4>{0xf3, 0x0f, 0x1e, 0xfa}));  // endbr64
  CHECK(plain > 500'000);
}

TEST_CASE("instructions that end too early are left to Zydis") {
  const std::array<uint8_t, 8> code = {0x48, 0x8b, 0x84, 0x24, 1, 2, 3, 4};  // mov rax, [rsp+x]
  Insn insn;
  CHECK(decode_plain(code, kPlace, insn));
  for (size_t size = 0; size < code.size(); size++) {
    Insn cut;
    CHECK(!decode_plain(std::span(code).first(size), kPlace, cut));
    CHECK(decode(std::span(code).first(size), kPlace).length == 0);
  }
}

TEST_CASE("most of what compilers emit is decoded quickly, and right") {
  constexpr size_t kEnough = 300'000;
  size_t all = 0, plain = 0;
  for (const auto code : code_of_this_process()) {
    for (size_t at = 0, seen = 0; at < code.size() && seen < kEnough; seen++, all++) {
      const auto rest = code.subspan(at).first(std::min<size_t>(kMaxInsnBytes, code.size() - at));
      const Insn insn = decode_by_zydis(rest, kPlace);
      if (insn.length == 0) {
        at++;
        continue;
      }
      const auto bytes = rest.first(insn.length);
      if (is_plain_and_right(bytes)) plain++;
      at += insn.length;
    }
  }
  CHECK(plain > all * 8 / 10);
}

}  // namespace shadowprof::decoder
