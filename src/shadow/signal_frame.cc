// SPDX-License-Identifier: MIT
#include "shadow/signal_frame.h"

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace shadowprof::shadow {
namespace {

// asm/sigcontext.h, which cannot be included beside the C library's.
struct SoftwareReserved {  // of the first 512 bytes, the last 48
  uint32_t magic1;
  uint32_t extended_size;
  uint64_t features;
  uint32_t state_size;
  uint32_t padding[7];
};
static_assert(sizeof(SoftwareReserved) == 48);
constexpr uint32_t kMagic1 = 0x46505853;
constexpr uint32_t kMagic2 = 0x46505845;
constexpr size_t kLegacyBytes = 512;
constexpr size_t kReservedOffset = kLegacyBytes - sizeof(SoftwareReserved);
constexpr size_t kHeaderBytes = 64;  // of the XSAVE area, behind the legacy part
constexpr size_t kMxcsr = 24;
constexpr size_t kMxcsrMask = 28;

// Where the C library's type has what the kernel writes: up to the first word of the signal mask.
constexpr size_t kContextBytes = offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t);
static_assert(offsetof(ucontext_t, uc_mcontext) == 40 && offsetof(ucontext_t, uc_sigmask) == 296);

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
  constexpr size_t kLeast = kLegacyBytes + kHeaderBytes;
  if (extended.size() < kLeast) return false;
  const auto reserved = memory.read_value<SoftwareReserved>(state + kReservedOffset);
  if (!reserved || reserved->magic1 != kMagic1) return false;
  const size_t size = reserved->state_size;
  if (size < kLeast || size > extended.size()) return false;
  const auto magic2 = memory.read_value<uint32_t>(state + size);
  std::vector<uint8_t> saved(size);
  if (!magic2 || *magic2 != kMagic2 || !memory.read(state, saved)) return false;
  const auto mask = value_at<uint32_t>(extended, kMxcsrMask);
  if (value_at<uint32_t>(saved, kMxcsr) & ~(mask != 0 ? mask : 0xffbf)) return false;
  const uint64_t features = value_at<uint64_t>(saved, kLegacyBytes) & reserved->features;
  // Compacted areas, and bits that nobody knows, are refused by the kernel.
  for (size_t i = kLegacyBytes + sizeof features; i < kLeast; i++) {
    if (saved[i] != 0) return false;
  }
  std::copy_n(saved.begin(), kReservedOffset, extended.begin());
  std::copy(saved.begin() + kLegacyBytes, saved.end(), extended.begin() + kLegacyBytes);
  std::memcpy(extended.data() + kLegacyBytes, &features, sizeof features);
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
  regs.r8 = get(REG_R8);
  regs.r9 = get(REG_R9);
  regs.r10 = get(REG_R10);
  regs.r11 = get(REG_R11);
  regs.r12 = get(REG_R12);
  regs.r13 = get(REG_R13);
  regs.r14 = get(REG_R14);
  regs.r15 = get(REG_R15);
  regs.rdi = get(REG_RDI);
  regs.rsi = get(REG_RSI);
  regs.rbp = get(REG_RBP);
  regs.rbx = get(REG_RBX);
  regs.rdx = get(REG_RDX);
  regs.rax = get(REG_RAX);
  regs.rcx = get(REG_RCX);
  regs.rsp = get(REG_RSP);
  regs.rip = get(REG_RIP);
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
