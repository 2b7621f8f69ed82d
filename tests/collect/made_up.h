// SPDX-License-Identifier: MIT
//
// What tests of one piece of code need around it.
#pragma once

#include <span>

#include "trace/block_table.h"

namespace shadowprof::test {

// A page at 0x1000, which is the start of its file.
inline trace::Module one_page_module() {
  trace::Module module;
  module.path = "/made/up";
  module.inode = 1;
  module.range = {GuestAddr(0x1000), GuestAddr(0x2000)};
  module.file_start = GuestAddr(0x1000);
  return module;
}

// A loop on that page, at offset 0x100: mov rax, [rbx]; jnz back to it. Returns its only block.
inline BlockId add_load_loop(trace::BlockTable& table) {
  constexpr uint8_t kCode[] = {0x48, 0x8b, 0x03, 0x75, 0xfb};
  trace::Block block;
  block.module = table.add_module(one_page_module());
  block.start = GuestAddr(0x1100);
  block.end = GuestAddr(0x1105);
  block.last_insn = GuestAddr(0x1103);
  block.target = block.start;
  block.insns = 2;
  block.terminator = trace::Terminator::conditional;
  return table.add_block(block, kCode);
}

// A translation of such a loop, whose branch is taken. Without slots it captures nothing.
inline RunId add_translation(trace::BlockTable& table, BlockId loop,
                             std::span<const trace::Slot> slots) {
  trace::Run run;
  run.insns = run.last_block_insns = 2;
  run.exit = trace::RunExit::taken;
  run.target = table.block(loop).start;
  run.captures = !slots.empty();
  return table.add_run(run, {&loop, 1}, slots);
}

}  // namespace shadowprof::test
