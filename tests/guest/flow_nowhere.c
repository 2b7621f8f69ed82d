// SPDX-License-Identifier: MIT
//
// Branches to addresses that no address can be fault themselves: the handler sees the branch's
// address, and the stack as it was before. xbegin is undefined where there are no transactions.
#include <cpuid.h>

#include "signals.h"

extern char at_ret[], at_ret_pop[], at_jmp[], at_call[], at_xbegin[], go_on[];
volatile uint64_t saved_sp;
static uint64_t fault_at, fault_sp, fault_cx, fault_dx;
static int fault_signal;

__asm__(
    ".text\n"
    // rdi: what to do; the handler continues at go_on with the stack pointer of the caller.
    "attempt:\n"
    "  mov %rsp, saved_sp(%rip)\n"
    "  mov $0x1111, %ecx\n  mov $0x2222, %edx\n"
    "  movabs $0x8000123412341234, %rax\n"
    "  cmp $1, %edi\n  je 1f\n  cmp $2, %edi\n  je 2f\n  cmp $3, %edi\n  je 3f\n"
    "  cmp $4, %edi\n  je 4f\n  jmp go_on\n"
    "1:\n  push %rax\nat_ret:\n  ret\n"
    "2:\n  push %rax\nat_ret_pop:\n  ret $16\n"
    "3:\n  sub $8, %rsp\nat_jmp:\n  jmp *%rax\n"
    "4:\n  sub $8, %rsp\nat_call:\n  call *%rax\n"
    "attempt_xbegin:\n  mov %rsp, saved_sp(%rip)\n  sub $8, %rsp\n"
    "at_xbegin:\n  .byte 0xc7, 0xf8, 0, 0, 0, 0\n"
    "go_on:\n  mov saved_sp(%rip), %rsp\n  ret\n");
void attempt(int what);
void attempt_xbegin(void);

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* regs = ((ucontext_t*)context)->uc_mcontext.gregs;
  fault_signal = number;
  fault_at = (uint64_t)regs[REG_RIP];
  fault_sp = (uint64_t)regs[REG_RSP];
  fault_cx = (uint64_t)regs[REG_RCX];
  fault_dx = (uint64_t)regs[REG_RDX];
  regs[REG_RIP] = (greg_t)go_on;
}

int main(void) {
  install(SIGSEGV, on_fault, 0);
  install(SIGBUS, on_fault, 0);
  install(SIGILL, on_fault, 0);
  const char* where[] = {at_ret, at_ret_pop, at_jmp, at_call};
  for (int round = 0; round < 3; ++round) {
    for (int what = 1; what <= 4; ++what) {
      fault_signal = 0;
      attempt(what);
      EXPECT(fault_signal == SIGSEGV && fault_at == (uint64_t)where[what - 1]);
      EXPECT(fault_sp == saved_sp - 8 && fault_cx == 0x1111 && fault_dx == 0x2222);
    }
  }
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && !(b & bit_RTM)) {
    fault_signal = 0;
    attempt_xbegin();
    EXPECT(fault_signal == SIGILL && fault_at == (uint64_t)at_xbegin && fault_sp == saved_sp - 8);
  }
  printf("all faults at their branches\n");
  return 0;
}
