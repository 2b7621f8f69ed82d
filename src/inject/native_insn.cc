// SPDX-License-Identifier: MIT
#include "inject/native_insn.h"

#include <cpuid.h>

#include <array>
#include <span>

#include "decoder/insn.h"
#include "inject/pushed_flags.h"

namespace shadowprof::inject {
namespace {

// icebp (int1) must run without the trap flag: its own trap looks like that of a step.
bool traps_like_a_step(std::span<const uint8_t> code) {
  for (const uint8_t b : code) {
    if (b == 0xf1) return true;
    const bool prefix = b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x64 ||
                        b == 0x65 || b == 0x66 || b == 0x67 || b == 0xf2 || b == 0xf3 ||
                        (b & 0xf0) == 0x40;
    if (!prefix) return false;
  }
  return false;
}

}  // namespace

NativeInsn look_at_insn(ptrace::RemoteMemory& memory, const machine::Registers& regs) {
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes;
  const size_t size = memory.read_some(regs.pc(), bytes);
  const auto code = std::span<const uint8_t>(bytes).first(size);
  const decoder::Insn decoded = decoder::decode(code, regs.pc());
  NativeInsn insn;
  insn.is_syscall = decoded.kind == decoder::InsnKind::syscall;
  insn.traps_itself = traps_like_a_step(code);
  insn.asks_processor = decoded.asks_processor;
  insn.asks_enabled_state = decoded.asks_enabled_state;
  insn.reads_clock = decoded.reads_clock;
  insn.names_core = (decoded.writes & decoder::gpr_bit(decoder::kRcx)) != 0;
  insn.length = decoded.length;
  insn.shows_step = pushes_flags(code) && (regs.eflags & machine::flags::kTrap) == 0;
  return insn;
}

// Some hypervisors lose the trap of a single step over it, and what follows executes, too.
bool answer_for_processor(const machine::CpuModel& processor, const NativeInsn& insn,
                          machine::Registers& regs) {
  const auto leaf = static_cast<uint32_t>(regs.rax);
  const auto subleaf = static_cast<uint32_t>(regs.rcx);
  if (insn.asks_enabled_state) {
    if (subleaf != 0 || processor.enabled_state() == 0) return false;
    regs.rax = static_cast<uint32_t>(processor.enabled_state());
    regs.rdx = processor.enabled_state() >> 32;
  } else if (insn.asks_processor) {
    machine::CpuidAnswer host;
    __cpuid_count(leaf, subleaf, host.eax, host.ebx, host.ecx, host.edx);
    const machine::CpuidAnswer answer = processor.cpuid(leaf, subleaf, host);
    regs.rax = answer.eax;
    regs.rbx = answer.ebx;
    regs.rcx = answer.ecx;
    regs.rdx = answer.edx;
  } else {
    return false;
  }
  regs.rip += insn.length;
  return true;
}

}  // namespace shadowprof::inject
