// SPDX-License-Identifier: MIT
#include "collect/edges/stack_switch.h"

#include <doctest/doctest.h>

#include <vector>

namespace shadowprof::collect {
namespace {

bool switches(const std::vector<uint8_t>& code) {
  trace::BlockTable table;
  trace::Block block;
  block.start = GuestAddr(0x401000);
  block.end = block.start + code.size();
  block.module = table.add_module({});
  return switches_stack(table, table.block(table.add_block(block, code)));
}

TEST_CASE("code that takes its stack pointer from elsewhere is known") {
  // mov rsp, rcx; pop rcx; jmp rcx, as exceptions end
  CHECK(switches({0x48, 0x89, 0xcc, 0x59, 0xff, 0xe1}));
  // mov rsp, r8; jmp rdx, as longjmp ends
  CHECK(switches({0x4c, 0x89, 0xc4, 0xff, 0xe2}));
  // mov rsp, [rdi]; jmp rdx
  CHECK(switches({0x48, 0x8b, 0x27, 0xff, 0xe2}));
}

TEST_CASE("what ends functions and opens frames is none of that") {
  // mov rsp, rbp; pop rbp; jmp rax
  CHECK_FALSE(switches({0x48, 0x89, 0xec, 0x5d, 0xff, 0xe0}));
  // leave; jmp rax
  CHECK_FALSE(switches({0xc9, 0xff, 0xe0}));
  // mov rsp, rbx; jmp r11
  CHECK_FALSE(switches({0x48, 0x89, 0xdc, 0x41, 0xff, 0xe3}));
  // lea rsp, [r10-8]; jmp rax
  CHECK_FALSE(switches({0x49, 0x8d, 0x62, 0xf8, 0xff, 0xe0}));
  // add rsp, 8; pop rbx; jmp rax
  CHECK_FALSE(switches({0x48, 0x83, 0xc4, 0x08, 0x5b, 0xff, 0xe0}));
  // and rsp, -32; jmp rax
  CHECK_FALSE(switches({0x48, 0x83, 0xe4, 0xe0, 0xff, 0xe0}));
}

}  // namespace
}  // namespace shadowprof::collect
