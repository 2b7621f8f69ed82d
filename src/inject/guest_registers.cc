// SPDX-License-Identifier: MIT
#include "inject/guest_registers.h"

#include <cstring>

namespace shadowprof::inject {
namespace {

bool records_trace(const GuestThread& t) {
  return has_trace(t.process->space->cache().recording());
}

unsigned long long& register_field(ptrace::Registers& regs, decoder::Gpr r) {
  switch (r) {
    case 0:
      return regs.rax;
    case 1:
      return regs.rcx;
    case 2:
      return regs.rdx;
    case 3:
      return regs.rbx;
    case 4:
      return regs.rsp;
    case 5:
      return regs.rbp;
    case 6:
      return regs.rsi;
    case 7:
      return regs.rdi;
    case 8:
      return regs.r8;
    case 9:
      return regs.r9;
    case 10:
      return regs.r10;
    case 11:
      return regs.r11;
    case 12:
      return regs.r12;
    case 13:
      return regs.r13;
    case 14:
      return regs.r14;
    default:
      return regs.r15;
  }
}

}  // namespace

BranchRegisters branch_registers(const GuestThread& t, uint64_t cursor) {
  const emu::StatePage& state = t.slot->state();
  if (!records_trace(t)) return {state.spill_rcx, state.spill_rdx};
  const uint8_t* at = t.slot->host + (cursor - t.slot->guest);
  BranchRegisters parked;
  std::memcpy(&parked.rcx, at + emu::kCursorSpillRcx, sizeof parked.rcx);
  std::memcpy(&parked.rdx, at + emu::kCursorSpillRdx, sizeof parked.rdx);
  return parked;
}

ptrace::Registers guest_registers(const GuestThread& t, ptrace::Registers regs,
                                  const emu::CachePosition& at) {
  const emu::StatePage& state = t.slot->state();
  if (records_trace(t)) regs.gs_base = t.guest_gs_base;
  regs.r15 = state.guest_r15;
  if (at.point.recovery & emu::kSubstituteHoldsR15) {
    const decoder::Gpr substitute = t.process->space->cache().fragment(at.fragment).substitute;
    regs.r15 = register_field(regs, substitute);
    register_field(regs, substitute) = state.spill_substitute;
  }
  if (at.point.recovery & emu::kAddressSpilled)
    register_field(regs, at.point.reg) = state.spill_address;
  return regs;
}

bool has_gone_out(GuestThread& t, const ptrace::Registers& regs) {
  if (!t.slot->state().leaves || t.process->space->cache().contains(regs.rip)) return false;
  t.in_engine = false;
  if (!has_counts(t.process->space->cache().recording())) t.cursor = t.slot->state().cursor;
  return true;
}

}  // namespace shadowprof::inject
