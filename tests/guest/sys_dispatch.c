// SPDX-License-Identifier: MIT
//
// A program that has some of its system calls turned into signals (syscall user dispatch), as those
// that run another system's code do, and computes while it has, in the handler too. None but its
// own calls may be turned into one. Where the kernel has no such thing, it computes all the same.
#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "guest.h"

enum { kDispatch = 59, kOn = 1, kForeignCall = 0xabcd };

static volatile char selector;  // 1: calls become signals
static volatile unsigned own, others;
static volatile uint64_t hash = 1;

static void on_call(int number, siginfo_t* info, void* context) {
  (void)number;
  hash = burn(hash, 20000);
  selector = 0;
  if (info->si_syscall == kForeignCall)
    own++;
  else
    others++;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = 1234;
}

static long foreign_call(void) {
  long result = kForeignCall;
  __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
  return result;
}

int main(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = on_call;
  EXPECT(sigaction(SIGSYS, &action, NULL) == 0);
  const int works = prctl(kDispatch, kOn, 0, 0, &selector) == 0;
  for (int i = 0; i < 300; i++) {
    selector = (char)works;
    hash = burn(hash, 100000);
    if (!works) hash = burn(hash, 20000);
    EXPECT(foreign_call() == (works ? 1234 : -ENOSYS));
    EXPECT(selector == 0);
  }
  EXPECT(!works || (own == 300 && others == 0));
  printf("%016llx\n", (unsigned long long)hash);
  return 0;
}
