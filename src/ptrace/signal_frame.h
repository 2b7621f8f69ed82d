// SPDX-License-Identifier: MIT
//
// What the kernel puts on the stack for a signal handler, and rt_sigreturn(2) takes from there:
// arch/x86/include/uapi/asm/sigcontext.h, which cannot be included beside the C library's types.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "machine/registers.h"

namespace shadowprof::ptrace {

// An XSAVE area in standard form, with this at the end of its legacy part, and a number behind it.
struct SoftwareReserved {
  uint32_t magic1 = 0;
  uint32_t extended_size = 0;  // with magic2
  uint64_t features = 0;
  uint32_t state_size = 0;
  uint32_t padding[7] = {};
};
static_assert(sizeof(SoftwareReserved) == 48);
inline constexpr uint32_t kFrameMagic1 = 0x46505853;
inline constexpr uint32_t kFrameMagic2 = 0x46505845;
inline constexpr size_t kLegacyStateBytes = 512;
inline constexpr size_t kStateHeaderBytes = 64;  // behind the legacy part
inline constexpr size_t kReservedOffset = kLegacyStateBytes - sizeof(SoftwareReserved);

// Where the C library's type has what the kernel writes: up to the first word of the signal mask.
inline constexpr size_t kContextBytes = offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t);
static_assert(offsetof(ucontext_t, uc_mcontext) == 40 && offsetof(ucontext_t, uc_sigmask) == 296);

// Those that are in the context as they are; flags and selectors are not.
struct SavedRegister {
  int index;  // in gregs
  unsigned long long user_regs_struct::*member;
};
inline constexpr SavedRegister kSavedRegisters[] = {
    {REG_R8, &user_regs_struct::r8},   {REG_R9, &user_regs_struct::r9},
    {REG_R10, &user_regs_struct::r10}, {REG_R11, &user_regs_struct::r11},
    {REG_R12, &user_regs_struct::r12}, {REG_R13, &user_regs_struct::r13},
    {REG_R14, &user_regs_struct::r14}, {REG_R15, &user_regs_struct::r15},
    {REG_RDI, &user_regs_struct::rdi}, {REG_RSI, &user_regs_struct::rsi},
    {REG_RBP, &user_regs_struct::rbp}, {REG_RBX, &user_regs_struct::rbx},
    {REG_RDX, &user_regs_struct::rdx}, {REG_RAX, &user_regs_struct::rax},
    {REG_RCX, &user_regs_struct::rcx}, {REG_RSP, &user_regs_struct::rsp},
    {REG_RIP, &user_regs_struct::rip},
};

}  // namespace shadowprof::ptrace
