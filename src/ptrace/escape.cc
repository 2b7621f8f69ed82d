// SPDX-License-Identifier: MIT
//
// The frame: struct rt_sigframe and restore_sigcontext in arch/x86/kernel/signal_64.c.
#include "ptrace/escape.h"

#include <cpuid.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ptrace/signal_frame.h"

namespace shadowprof::ptrace {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLeastState = kLegacyStateBytes + kStateHeaderBytes;
// Tiles (AMX) have a place in the kernel's copy, but not in the frame of a program without leave to
// use them; one that has is not helped.
constexpr uint64_t kTiles = uint64_t{3} << 17;

// uc_flags.
constexpr unsigned long kHasExtendedState = 1;
constexpr unsigned long kHasStackSegment = 2;
constexpr unsigned long kStackSegmentIsStrict = 4;
// A signal stack's flag: refused by the kernel, which then leaves the present one.
constexpr int kNoSuchFlags = 0x7fff;

// What an escape takes: a system call with a return behind it, and the way back from handlers.
constexpr uint8_t kCall[] = {0x0f, 0x05, 0xc3};
constexpr uint8_t kLong[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
constexpr uint8_t kShort[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

// The address to which the handler would return, and the context.
constexpr size_t kFrameBytes = sizeof(uint64_t) + kContextBytes;

// Bytes of an XSAVE area in standard form with these features.
size_t area_size(uint64_t features) {
  size_t size = kLeastState;
  for (unsigned i = 2; i < 63; i++) {
    if (!(features >> i & 1)) continue;
    unsigned bytes = 0, offset = 0, c = 0, d = 0;
    if (__get_cpuid_count(0xd, i, &bytes, &offset, &c, &d) == 0) continue;
    size = std::max<size_t>(size, offset + bytes);
  }
  return size;
}

// As ptrace gives it, to as a signal frame has it. Empty: not possible.
std::vector<uint8_t> state_for_frame(const ExtendedState& state) {
  if (state.size() < kLeastState) return {};
  uint64_t supported = 0, in_use = 0;  // ptrace puts the mask of all features where ours will be
  std::memcpy(&supported, state.data() + kReservedOffset, sizeof supported);
  std::memcpy(&in_use, state.data() + kLegacyStateBytes, sizeof in_use);
  if (in_use & kTiles) return {};
  SoftwareReserved software;
  software.magic1 = kFrameMagic1;
  software.features = supported & ~kTiles;
  const size_t size = area_size(software.features);
  if (size > state.size()) return {};
  software.state_size = static_cast<uint32_t>(size);
  software.extended_size = static_cast<uint32_t>(size + sizeof kFrameMagic2);
  std::vector<uint8_t> bytes(state.begin(), state.begin() + static_cast<ptrdiff_t>(size));
  std::memcpy(bytes.data() + kReservedOffset, &software, sizeof software);
  bytes.resize(size + sizeof kFrameMagic2);
  std::memcpy(bytes.data() + size, &kFrameMagic2, sizeof kFrameMagic2);
  return bytes;
}

ucontext_t context_of(const Registers& r, SignalMask mask) {
  ucontext_t context{};
  context.uc_flags = kHasExtendedState | kHasStackSegment | kStackSegmentIsStrict;
  context.uc_stack.ss_flags = kNoSuchFlags;
  auto& to = context.uc_mcontext.gregs;
  const auto put = [&](int which, uint64_t value) { to[which] = static_cast<greg_t>(value); };
  for (const SavedRegister& saved : kSavedRegisters) put(saved.index, r.*saved.member);
  put(REG_EFL, r.eflags);
  put(REG_CSGSFS, (r.cs & 0xffff) | (r.ss & 0xffff) << 48);
  std::memcpy(&context.uc_sigmask, &mask, sizeof mask);
  return context;
}

// As the thread would go on if the kernel restarted what it was interrupted in.
Registers restarted(Registers registers) {
  if (registers.restart_pending()) {
    registers.rip -= machine::kSyscallInsnBytes;
    registers.rax = registers.orig_rax;
  }
  return registers;
}

}  // namespace

bool Escape::put(Tracee tracee, RemoteMemory& memory, const Registers& saved, SignalMask mask) {
  ExtendedState extended;
  if (!tracee.get_extended_state_if_alive(extended)) return false;
  const std::vector<uint8_t> state = state_for_frame(extended);
  if (state.empty() || !stack_.contains(saved.sp())) return false;
  const uint64_t top = saved.rsp - machine::kRedZoneBytes;
  const uint64_t state_at = (top - state.size()) & ~(kAlignment - 1);
  own_ = GuestAddr((state_at - kFrameBytes) & ~(kAlignment - 1));
  child_ = GuestAddr((own_.value - kFrameBytes) & ~(kAlignment - 1));
  bottom_ = child_;
  if (bottom_ < stack_.start) return false;

  std::vector<uint8_t> bytes(top - bottom_.value);
  const auto frame = [&](GuestAddr at, ucontext_t context, uint64_t state_address) {
    context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(state_address);
    uint8_t* to = bytes.data() + (at - bottom_);
    std::memcpy(to, &route_.sigreturn.value, sizeof(uint64_t));
    std::memcpy(to + sizeof(uint64_t), &context, kContextBytes);
  };
  frame(own_, context_of(restarted(saved), mask), state_at);
  Registers last = saved;
  last.set_pc(route_.syscall_and_return);
  last.rax = SYS_exit_group;
  last.rdi = 0;
  frame(child_, context_of(last, ~SignalMask{0}), 0);
  std::memcpy(bytes.data() + (state_at - bottom_.value), state.data(), state.size());

  before_.resize(bytes.size());
  if (!memory.read(bottom_, before_) || !memory.write(bottom_, bytes)) {
    before_.clear();
    return false;
  }
  return true;
}

void Escape::stand_by(Registers& registers) const {
  registers.set_pc(route_.sigreturn);
  registers.set_sp(own_ + sizeof(uint64_t));
  registers.orig_rax = machine::kNoSyscall;
}

void Escape::set_out(Registers& registers) const {
  registers.set_pc(route_.syscall_and_return);
  registers.set_sp(own_);
}

Status Escape::take_out(RemoteMemory& memory) {
  if (before_.empty()) return {};
  Status done = memory.write(bottom_, before_);
  before_.clear();
  return done;
}

std::optional<EscapeRoute> find_escape_route(std::span<const GuestRange> executable,
                                             RemoteMemory& memory) {
  const auto call = find_bytes(executable, memory, kCall);
  if (!call) return std::nullopt;
  auto back = find_bytes(executable, memory, kLong);
  if (!back) back = find_bytes(executable, memory, kShort);
  if (!back) return std::nullopt;
  return EscapeRoute{*call, *back};
}

bool is_escape_route(const EscapeRoute& route, std::span<const GuestRange> executable,
                     RemoteMemory& memory) {
  return has_bytes_at(route.syscall_and_return, executable, memory, kCall) &&
         (has_bytes_at(route.sigreturn, executable, memory, kLong) ||
          has_bytes_at(route.sigreturn, executable, memory, kShort));
}

}  // namespace shadowprof::ptrace
