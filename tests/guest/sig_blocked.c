// SPDX-License-Identifier: MIT
//
// A long computation with every signal blocked, handlers for SIGSEGV and SIGTRAP installed before:
// afterwards both handlers, the mask and the kernel's record of them are unchanged, although an
// engine took faults and traps of its own meanwhile. And a blocked synchronous fault still kills.
#include "signals.h"

static volatile int handled;
static void on_segv(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] += 2;  // mov (%rax), %eax
  handled = handled + 1;
}
static void on_trap(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  handled = handled + 100;
}

static void check_handlers(void) {
  struct sigaction segv, trap;
  EXPECT(sigaction(SIGSEGV, NULL, &segv) == 0 && sigaction(SIGTRAP, NULL, &trap) == 0);
  EXPECT(segv.sa_sigaction == on_segv && trap.sa_sigaction == on_trap);
  EXPECT((segv.sa_flags & SA_SIGINFO) && (trap.sa_flags & SA_SIGINFO));
  const uint64_t caught = status_mask("SigCgt");
  EXPECT(caught >> (SIGSEGV - 1) & 1 && caught >> (SIGTRAP - 1) & 1);
}

static uint64_t work(uint64_t seed) {
  // Fresh code, system calls and memory changes: what makes an engine stop the program.
  uint64_t hash = seed;
  for (int i = 0; i < 200; ++i) {
    hash = burn(hash, 5000);
    char text[64];
    snprintf(text, sizeof(text), "%llx %d", (unsigned long long)hash, i);
    hash = mix_bytes(hash, text, strlen(text));
    void* block = malloc(200000 + (size_t)i);
    EXPECT(block != NULL);
    memset(block, i, 4096);
    free(block);
    (void)getppid();
  }
  return hash;
}

int main(void) {
  install(SIGSEGV, on_segv, 0);
  install(SIGTRAP, on_trap, 0);
  const uint64_t ignored_before = status_mask("SigIgn");
  sigset_t all, before = set_of(0), after = set_of(0);  // the kernel writes 8 of their bytes
  sigfillset(&all);
  EXPECT(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
  EXPECT(sigprocmask(SIG_SETMASK, NULL, &before) == 0);
  const uint64_t kernel_before = status_mask("SigBlk");
  printf("blocked %016llx\n", (unsigned long long)kernel_before);
  printf("work %016llx\n", (unsigned long long)work(1));
  EXPECT(sigprocmask(SIG_SETMASK, NULL, &after) == 0);
  EXPECT(memcmp(&before, &after, sizeof(before)) == 0);
  EXPECT(status_mask("SigBlk") == kernel_before && status_mask("SigIgn") == ignored_before);
  EXPECT(status_mask("SigPnd") == 0 && status_mask("ShdPnd") == 0);
  check_handlers();
  EXPECT(handled == 0);

  const sigset_t none = set_of(0);
  EXPECT(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
  __asm__ volatile("xor %%eax, %%eax\n mov (%%rax), %%eax\n int3" ::: "eax", "memory");
  printf("handled %d\n", handled);
  EXPECT(handled == 101);
  EXPECT(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
  printf("work %016llx\n", (unsigned long long)work(2));
  check_handlers();

  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    __asm__ volatile("xor %%eax, %%eax\n mov (%%rax), %%eax" ::: "eax", "memory");
    _exit(0);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  printf("blocked fault: killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 0;
}
