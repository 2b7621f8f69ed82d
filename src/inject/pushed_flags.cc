// SPDX-License-Identifier: MIT
#include "inject/pushed_flags.h"

#include "machine/registers.h"

namespace shadowprof::inject {

bool pushes_flags(std::span<const uint8_t> insn) {
  size_t opcode = 0;
  while (opcode < insn.size() && (insn[opcode] == 0x66 || insn[opcode] == 0x48)) opcode++;
  return opcode < insn.size() && insn[opcode] == 0x9c;
}

void hide_pushed_trap_flag(ptrace::RemoteMemory& memory, GuestAddr top) {
  const auto pushed = memory.read_value<uint16_t>(top);
  if (!pushed) return;
  const auto without = static_cast<uint16_t>(*pushed & ~machine::flags::kTrap);
  (void)memory.write_value(top, without);
}

}  // namespace shadowprof::inject
