// SPDX-License-Identifier: MIT
//
// The integer registers of a stopped 64-bit thread, as the kernel hands them over, with the few
// questions that everybody asks of them. The layout is the kernel's user_regs_struct, so a
// Registers can be read and written in one system call without a copy; nothing may be added to it.
#pragma once

#include <sys/user.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/limits.h"
#include "base/types.h"

namespace shadowprof::machine {

// What a system call leaves in rax when a signal or a tracer interrupted it and the kernel has not
// yet decided whether to restart it (include/linux/errno.h; never seen by the program itself).
// The decision is taken on the way back to user mode, in arch_do_signal_or_restart(), and only if
// orig_rax is not negative.
inline constexpr int64_t kRestartSys = -512;        // restart, unless the handler lacks SA_RESTART
inline constexpr int64_t kRestartNoIntr = -513;     // restart always
inline constexpr int64_t kRestartNoHandler = -514;  // restart if no handler ran, else EINTR
inline constexpr int64_t kRestartBlock = -516;      // the same, by way of restart_syscall(2)

// orig_rax of a thread that did not enter the kernel by a system call.
inline constexpr uint64_t kNoSyscall = ~uint64_t{0};

// cs of 64-bit user code on Linux; anything else is 32-bit compatibility mode.
inline constexpr uint64_t kUser64CodeSelector = 0x33;

// Length of `syscall` (0f 05) and of `int 0x80` (cd 80).
inline constexpr uint64_t kSyscallInsnBytes = 2;

// Bytes below the stack pointer that belong to the program (System V ABI, 3.2.2).
inline constexpr uint64_t kRedZoneBytes = 128;

// The kernel sets no base of a segment from there on (TASK_SIZE_MAX).
inline constexpr uint64_t kFirstRefusedBase = (uint64_t{1} << 47) - limits::kPageBytes;

namespace flags {
inline constexpr uint64_t kCarry = 1u << 0;
inline constexpr uint64_t kParity = 1u << 2;
inline constexpr uint64_t kAdjust = 1u << 4;
inline constexpr uint64_t kZero = 1u << 6;
inline constexpr uint64_t kSign = 1u << 7;
inline constexpr uint64_t kTrap = 1u << 8;
inline constexpr uint64_t kDirection = 1u << 10;
inline constexpr uint64_t kOverflow = 1u << 11;
inline constexpr uint64_t kResume = 1u << 16;
inline constexpr uint64_t kAlignmentCheck = 1u << 18;
// Those that arithmetic instructions write.
inline constexpr uint64_t kArithmetic = kCarry | kParity | kAdjust | kZero | kSign | kOverflow;
}  // namespace flags

struct Registers : user_regs_struct {
  GuestAddr pc() const { return GuestAddr(rip); }
  GuestAddr sp() const { return GuestAddr(rsp); }
  void set_pc(GuestAddr pc) { rip = pc.value; }
  void set_sp(GuestAddr sp) { rsp = sp.value; }

  bool is_64_bit() const { return cs == kUser64CodeSelector; }

  // True while the thread is in, or on its way out of, a system call. An exception or interrupt
  // sets orig_rax to -1; so do rt_sigreturn(2) and whoever wants a pending restart forgotten.
  bool in_syscall() const { return static_cast<int64_t>(orig_rax) >= 0; }

  // The system call was interrupted and the kernel still has to decide about its restart.
  // Changing any of rax, orig_rax and rip decides it differently.
  bool restart_pending() const {
    if (!in_syscall()) return false;
    const auto result = static_cast<int64_t>(rax);
    return result == kRestartSys || result == kRestartNoIntr || result == kRestartNoHandler ||
           result == kRestartBlock;
  }
  // Something has interrupted the system call, which may be made again.
  bool call_is_cut_short() const {
    return restart_pending() || (in_syscall() && static_cast<int64_t>(rax) == -EINTR);
  }

  // The arguments of a system call, by the kernel's convention.
  uint64_t syscall_argument(size_t index) const {
    const uint64_t values[] = {rdi, rsi, rdx, r10, r8, r9};
    return values[index];
  }
};
static_assert(sizeof(Registers) == sizeof(user_regs_struct));
static_assert(std::is_trivially_copyable_v<Registers>);

inline bool operator==(const Registers& a, const Registers& b) {
  // user_regs_struct is 27 words without padding.
  static_assert(sizeof(Registers) == 27 * sizeof(uint64_t));
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof a) == 0;
}

}  // namespace shadowprof::machine
