// SPDX-License-Identifier: MIT
#include "shadow/signal_return.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ptrace/signal_frame.h"

namespace shadowprof::shadow {
namespace {

using ptrace::kContextBytes;
using ptrace::kLegacyStateBytes;
using ptrace::kReservedOffset;
constexpr size_t kMxcsr = 24;
constexpr size_t kMxcsrMask = 28;

// AC, OF, DF, SF, ZF, AF, PF, CF, RF: what a program may set so. TF is for debuggers.
constexpr uint64_t kFlags = 0x50cd5;
constexpr uint64_t kTrapFlag = 0x100;

template <typename T>
T value_at(const std::vector<uint8_t>& bytes, size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The XSAVE area that `state` points to becomes that of `now`; false: it is not well-formed.
bool read_extended(ptrace::RemoteMemory& memory, GuestAddr state, ptrace::ExtendedState& extended) {
  constexpr size_t kLeast = kLegacyStateBytes + ptrace::kStateHeaderBytes;
  if (extended.size() < kLeast) return false;
  const auto reserved = memory.read_value<ptrace::SoftwareReserved>(state + kReservedOffset);
  if (!reserved || reserved->magic1 != ptrace::kFrameMagic1) return false;
  const size_t size = reserved->state_size;
  if (size < kLeast || size > extended.size()) return false;
  const auto magic2 = memory.read_value<uint32_t>(state + size);
  std::vector<uint8_t> saved(size);
  if (!magic2 || *magic2 != ptrace::kFrameMagic2 || !memory.read(state, saved)) return false;
  const auto mask = value_at<uint32_t>(extended, kMxcsrMask);
  if (value_at<uint32_t>(saved, kMxcsr) & ~(mask != 0 ? mask : 0xffbf)) return false;
  const uint64_t features = value_at<uint64_t>(saved, kLegacyStateBytes) & reserved->features;
  // Compacted areas, and bits that nobody knows, are refused by the kernel.
  for (size_t i = kLegacyStateBytes + sizeof features; i < kLeast; i++) {
    if (saved[i] != 0) return false;
  }
  std::copy_n(saved.begin(), kReservedOffset, extended.begin());
  std::copy(saved.begin() + kLegacyStateBytes, saved.end(), extended.begin() + kLegacyStateBytes);
  std::memcpy(extended.data() + kLegacyStateBytes, &features, sizeof features);
  return true;
}

}  // namespace

std::optional<SignalReturn> read_signal_frame(ptrace::RemoteMemory& memory,
                                              const ptrace::Registers& at_call,
                                              const ptrace::ExtendedState& now) {
  std::vector<uint8_t> bytes(kContextBytes);
  if (!memory.read(at_call.sp(), bytes)) return std::nullopt;
  ucontext_t context{};
  std::memcpy(&context, bytes.data(), bytes.size());
  const auto& saved = context.uc_mcontext.gregs;
  const auto get = [&](int which) { return static_cast<uint64_t>(saved[which]); };
  SignalReturn back{at_call, now, 0};
  std::memcpy(&back.signal_mask, &context.uc_sigmask, sizeof back.signal_mask);
  ptrace::Registers& regs = back.registers;
  for (const ptrace::SavedRegister& r : ptrace::kSavedRegisters) regs.*r.member = get(r.index);
  const uint64_t flags = get(REG_EFL);
  if (flags & kTrapFlag) return std::nullopt;
  regs.eflags = (at_call.eflags & ~kFlags) | (flags & kFlags);
  regs.orig_rax = machine::kNoSyscall;
  const uint64_t selectors = get(REG_CSGSFS);  // cs in the lowest 16 bits, ss in the highest
  const uint64_t code = (selectors & 0xffff) | 3;
  const uint64_t stack = selectors >> 48;
  if (code != at_call.cs || (stack != 0 && stack != at_call.ss)) return std::nullopt;
  const GuestAddr state(reinterpret_cast<uint64_t>(context.uc_mcontext.fpregs));
  if (state.value == 0 || !read_extended(memory, state, back.extended)) return std::nullopt;
  return back;
}

}  // namespace shadowprof::shadow
