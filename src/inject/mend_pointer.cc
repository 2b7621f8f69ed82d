// SPDX-License-Identifier: MIT
#include "inject/mend_pointer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "decoder/insn.h"
#include "emu/translate/x87_pointer.h"

namespace shadowprof::inject {
namespace {

using decoder::Insn;
using emu::CachePosition;

constexpr uint64_t kLowHalf = 0xffff'ffff;
constexpr size_t kPointerInArea = 8;

uint64_t value_of(const machine::Registers& regs, decoder::Gpr r) {
  const uint64_t values[] = {regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp,
                             regs.rsi, regs.rdi, regs.r8,  regs.r9,  regs.r10, regs.r11,
                             regs.r12, regs.r13, regs.r14, regs.r15};
  return r < 16 ? values[r] : 0;
}

bool has_prefix(const Insn& insn, uint8_t prefix) {
  const auto end = insn.bytes.begin() + insn.opcode_offset;
  return std::find(insn.bytes.begin(), end, prefix) != end;
}

GuestAddr operand_address(const Insn& insn, const machine::Registers& regs) {
  if (insn.rip_relative) return insn.rip_target;
  const decoder::MemoryAccess& a = insn.accesses[0];
  uint64_t address = value_of(regs, a.base) + value_of(regs, a.index) * a.scale +
                     static_cast<uint64_t>(a.displacement);
  if (has_prefix(insn, 0x67)) address &= kLowHalf;
  if (has_prefix(insn, 0x64)) address += regs.fs_base;
  if (has_prefix(insn, 0x65)) address += regs.gs_base;
  return GuestAddr(address);
}

// The guest's address for one in the cache, at which an instruction has executed.
std::optional<GuestAddr> guest_address(const emu::CodeCache& cache, uint64_t pc) {
  const CachePosition at = cache.locate(pc);
  if (at.kind == CachePosition::Kind::stale) return cache.fragment(at.fragment).start;
  if (at.kind != CachePosition::Kind::point) return std::nullopt;
  return cache.fragment(at.fragment).start + static_cast<uint64_t>(int64_t{at.point.guest_delta});
}

std::optional<GuestAddr> guest_address_of_low_half(const emu::CodeCache& cache, uint64_t low) {
  return guest_address(cache, cache.base() + ((low - cache.base()) & kLowHalf));
}

void store(ptrace::RemoteMemory& memory, GuestAddr place, const GuestAddr& address, size_t bytes) {
  (void)memory.write(place, {reinterpret_cast<const uint8_t*>(&address.value), bytes});
}

void mend_at(const emu::CodeCache& cache, GuestAddr place, size_t bytes,
             ptrace::RemoteMemory& memory) {
  uint64_t stored = 0;
  if (!memory.read(place, {reinterpret_cast<uint8_t*>(&stored), bytes})) return;
  const auto guest = bytes == sizeof stored ? guest_address(cache, stored)
                                            : guest_address_of_low_half(cache, stored);
  if (guest) store(memory, place, *guest, bytes);
}

}  // namespace

GuestAddr mend_stored_pointer(const emu::CodeCache& cache, const CachePosition& at,
                              const machine::Registers& guest, const emu::StatePage& state,
                              ptrace::RemoteMemory& memory) {
  const GuestAddr pc =
      cache.fragment(at.fragment).start + static_cast<uint64_t>(int64_t{at.point.guest_delta});
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes{};
  const size_t size = memory.read_some(pc, bytes);
  const Insn insn = decoder::decode(std::span(bytes).first(size), pc);
  const auto stored = emu::stored_pointer(insn);
  if (!stored || insn.access_count == 0) return insn.next();
  const GuestAddr place = operand_address(insn, guest) + stored->offset;
  if (stored->bytes != sizeof(uint16_t)) {
    mend_at(cache, place, stored->bytes, memory);
  } else if (const auto address = guest_address_of_low_half(cache, emu::whole_pointer(state))) {
    store(memory, place, *address, stored->bytes);
  }
  return insn.next();
}

void mend_saved_area(const emu::CodeCache& cache, GuestAddr area, ptrace::RemoteMemory& memory) {
  mend_at(cache, area + kPointerInArea, sizeof(uint64_t), memory);
}

void mend_unit(const emu::CodeCache& cache, ptrace::Tracee thread) {
  ptrace::ExtendedState state;
  uint64_t stored = 0;
  if (!thread.get_extended_state_if_alive(state)) return;
  if (state.size() < kPointerInArea + sizeof stored) return;
  std::memcpy(&stored, &state[kPointerInArea], sizeof stored);
  const auto guest = guest_address(cache, stored);
  if (!guest) return;
  std::memcpy(&state[kPointerInArea], &guest->value, sizeof stored);
  (void)thread.set_extended_state_if_alive(state);
}

}  // namespace shadowprof::inject
