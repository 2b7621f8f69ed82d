// SPDX-License-Identifier: MIT
//
// Alignment checks (eflags.AC): code that runs with them, and pushes and pops its flags, calls and
// jumps through registers, and then an access that is misaligned. Nobody but the program sets the
// trap flag, and nothing faults but that access.
#include <signal.h>
#include <ucontext.h>

#include "guest.h"

enum { kAlignment = 1 << 18, kTrap = 1 << 8 };

extern const char at_misaligned[], after_misaligned[];
static volatile int faults, right_place;

static void handler(int number, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  faults += number == SIGBUS && info->si_code == BUS_ADRALN;
  right_place += (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] == (uintptr_t)at_misaligned;
  uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)after_misaligned;
  uc->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)kAlignment;
}

// The flags as they were pushed while alignment was checked, of both times; sums of `rounds`.
__asm__(
    ".text\n.p2align 4\nchecked:\n  endbr64\n  push %rbx\n  push %rbp\n  mov %rdi, %rbx\n"
    "  xor %ebp, %ebp\n  mov %rsi, %rcx\n  pushfq\n  orl $0x40000, (%rsp)\n  popfq\n"
    "again:\n  add %rcx, %rbp\n  mov %rbp, 16(%rbx)\n  mov 16(%rbx), %rax\n"
    "  lea helper(%rip), %rdx\n  call *%rdx\n  sub $1, %rcx\n  jnz again\n"
    "  pushfq\n  pop %rax\n  mov %rax, (%rbx)\n  pushfq\n  popfq\n  pushfq\n  pop %rax\n"
    "  mov %rax, 8(%rbx)\n  pushfq\n  andl $~0x40000, (%rsp)\n  popfq\n  mov %rbp, %rax\n"
    "  pop %rbp\n  pop %rbx\n  ret\n"
    "helper:\n  add $1, %rbp\n  ret\n"
    ".p2align 4\nmisaligned:\n  endbr64\n  pushfq\n  orl $0x40000, (%rsp)\n  popfq\n"
    "at_misaligned:\n  mov 1(%rdi), %rax\nafter_misaligned:\n  ret\n");
uint64_t checked(uint64_t* flags, uint64_t rounds);
void misaligned(uint64_t* at);

int main(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = handler;
  EXPECT(sigaction(SIGBUS, &action, NULL) == 0);
  uint64_t data[4] = {0};
  for (int i = 0; i < 3; i++) {
    EXPECT(checked(data, 50) == 50 * 51 / 2 + 50);
    EXPECT((data[0] & kAlignment) && (data[1] & kAlignment));
    EXPECT(!(data[0] & kTrap) && !(data[1] & kTrap));
    EXPECT(faults == i);
    misaligned(data);
    EXPECT(faults == i + 1 && right_place == i + 1);
  }
  return 0;
}
