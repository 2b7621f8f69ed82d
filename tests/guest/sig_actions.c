// SPDX-License-Identifier: MIT
//
// Actions are set for every signal, again and again, and asked for, and so is the mask. A program
// that guards each step of a computation so does little else; only the actions of three signals
// matter to an engine.
#include "signals.h"

enum { kRounds = 2000, kSignals = 64 };

static volatile int handled[kSignals + 1];

static void count(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  handled[number]++;
}

static void count_otherwise(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  handled[number] += 1000;
}

static int may_be_caught(int number) {
  return number != SIGKILL && number != SIGSTOP && (number < 32 || number >= SIGRTMIN);
}

static SignalHandler* handler_of(int number) {
  struct sigaction action;
  EXPECT(sigaction(number, NULL, &action) == 0);
  return action.sa_sigaction;
}

// As the kernel has it.
struct KernelAction {
  SignalHandler* handler;
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
};

// The number of a signal is an int: what is above that in its register is nobody's business.
static void ignore_by_wide_number(int number) {
  const struct KernelAction ignore = {(void*)SIG_IGN, 0, NULL, 0};
  const long wide = 0x100000000 + number;
  EXPECT(syscall(SYS_rt_sigaction, wide, &ignore, NULL, 8) == 0);
  printf("%d by a wide number: %s", number,
         handler_of(number) == (void*)SIG_IGN ? "ignored" : "other");
  raise(number);
  printf(", then %s\n", handler_of(number) == (void*)SIG_IGN ? "ignored" : "other");
}

int main(void) {
  for (int number = 1; number <= kSignals; number++) {
    if (!may_be_caught(number)) continue;
    install(number, count, 0);
    EXPECT(handler_of(number) == count);
    raise(number);
    install(number, count_otherwise, SA_RESETHAND);
    raise(number);
    const int is_default = handler_of(number) == (void*)SIG_DFL;
    printf("%d: %d, then %s\n", number, handled[number], is_default ? "default" : "other");
  }
  ignore_by_wide_number(SIGTRAP);
  ignore_by_wide_number(SIGSEGV);
  ignore_by_wide_number(SIGBUS);
  sigset_t mask;
  for (int i = 0; i < kRounds; i++) {
    install(SIGFPE, i % 2 ? count : count_otherwise, 0);
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGFPE));
  }
  raise(SIGFPE);
  printf("after many: %d\n", handled[SIGFPE]);
  printf("invalid: %d", sigaction(65, NULL, NULL));
  printf(" %d", (int)syscall(SYS_rt_sigaction, 256 + SIGSEGV, NULL, NULL, 8));
  printf(" %d", (int)syscall(SYS_rt_sigaction, SIGUSR1, (void*)1, NULL, 8));
  printf(" %d\n", (int)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, (void*)1, 8));
  return 0;
}
