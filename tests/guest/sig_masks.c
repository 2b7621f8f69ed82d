// SPDX-License-Identifier: MIT
//
// Signal masks that are set in every way, beside what is blocked already: each call answers as the
// kernel does, also where it cannot read the mask, and what comes is what the mask lets in.
#include "signals.h"

#include <sys/mman.h>

static volatile int handled[65];
static void on_signal(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  handled[number] = handled[number] + 1;
}

static long set_mask(int how, const void* set, uint64_t* old) {
  errno = 0;
  return syscall(SYS_rt_sigprocmask, how, set, old, 8) == 0 ? 0 : -errno;
}

static const uint64_t kNever = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);
enum { kQueued = 64 };  // the last real-time signal
static const int kSent[] = {SIGUSR1, SIGUSR2, SIGCHLD, SIGTRAP, SIGSEGV, SIGFPE, SIGSYS, kQueued};
enum { kSentCount = sizeof kSent / sizeof kSent[0] };

// One signal or two, all, or two that instructions raise.
static uint64_t random_mask(uint64_t* random) {
  switch (next_random(random) % 8) {
    case 0: return ~0ull;
    case 1: return 0;
    case 2: return 1ull << (SIGSEGV - 1) | 1ull << (SIGTRAP - 1);
    default: break;
  }
  const int first = kSent[next_random(random) % kSentCount];
  const int second = kSent[next_random(random) % kSentCount];
  return 1ull << (first - 1) | 1ull << (second - 1);
}

static uint64_t set_at_random(int rounds) {
  uint64_t random = 7, mask = 0, hash = 0;
  int sent = 0;
  EXPECT(set_mask(SIG_SETMASK, &mask, NULL) == 0);
  for (int i = 0; i < rounds; ++i) {
    const int how = (int)(next_random(&random) % 3);
    const uint64_t set = random_mask(&random);
    uint64_t old = 1;
    EXPECT(set_mask(how, &set, &old) == 0);
    EXPECT(old == mask);
    mask = how == SIG_BLOCK ? mask | set : how == SIG_UNBLOCK ? mask & ~set : set;
    mask &= ~kNever;
    const int number = kSent[next_random(&random) % kSentCount];
    const int before = handled[number];
    const int is_open = !(mask >> (number - 1) & 1);
    if (number != kQueued || sent < 1000) {  // those queue up
      sent += number == kQueued && !is_open;
      EXPECT(syscall(SYS_tgkill, getpid(), getpid(), number) == 0);
      EXPECT(handled[number] == before + is_open);
    }
    hash = mix(burn(hash, 20), mask);
  }
  const uint64_t none = 0;
  EXPECT(set_mask(SIG_SETMASK, &none, NULL) == 0);
  for (int i = 0; i < kSentCount; ++i) hash = mix(hash, (uint64_t)handled[kSent[i]]);
  return hash;
}

// Where the mask cannot be read, or only some of it.
static void set_from_nowhere(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(two != MAP_FAILED && mprotect(two + page, page, PROT_NONE) == 0);
  const void* places[] = {(void*)8,         two + page,     two + page - 1,
                          two + page - 2,   two + page - 4, (void*)0xffffffff81000000,
                          (void*)(1ull << 60), two + page - 8};
  const uint64_t kUsual = 1ull << (SIGUSR1 - 1);
  const int kDispositions = 3;
  for (int i = 0; i < kDispositions; ++i) {
    struct sigaction action = {.sa_handler = i == 0 ? SIG_DFL : SIG_IGN}, seen;
    if (i == 2) action = (struct sigaction){.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
    for (size_t place = 0; place < sizeof places / sizeof places[0]; ++place) {
      EXPECT(set_mask(SIG_SETMASK, &kUsual, NULL) == 0);
      uint64_t old = 1;
      printf("%ld ", set_mask(SIG_BLOCK, places[place], &old));
      EXPECT(set_mask(SIG_BLOCK, NULL, &old) == 0 && old == kUsual);
      EXPECT(sigaction(SIGSEGV, NULL, &seen) == 0 && seen.sa_handler == action.sa_handler);
    }
  }
  EXPECT(handled[SIGSEGV] == 0);
  // The kernel keeps one SIGSEGV only: this one is in the way of one that is ours.
  const uint64_t segv = 1ull << (SIGSEGV - 1);
  EXPECT(set_mask(SIG_SETMASK, &segv, NULL) == 0);
  EXPECT(syscall(SYS_tgkill, getpid(), getpid(), SIGSEGV) == 0);
  for (size_t place = 0; place < sizeof places / sizeof places[0]; ++place) {
    printf("%ld ", set_mask(SIG_BLOCK, places[place], NULL));
    EXPECT(handled[SIGSEGV] == 0);
  }
  EXPECT(set_mask(SIG_SETMASK, &kUsual, NULL) == 0 && handled[SIGSEGV] == 1);
  printf("and %ld %ld %ld\n", set_mask(7, &kUsual, NULL), set_mask(SIG_SETMASK, &kUsual, (void*)8),
         syscall(SYS_rt_sigprocmask, SIG_BLOCK, &kUsual, NULL, 4));
  uint64_t both = kUsual << 1;
  EXPECT(set_mask(SIG_BLOCK, &both, &both) == 0 && both == kUsual);
}

static ucontext_t main_context, other_context;
static uint64_t switches;
static void other(void) {
  for (;;) {
    switches = mix(switches, 1);
    EXPECT(swapcontext(&other_context, &main_context) == 0);
  }
}

static void switch_contexts(void) {
  static char stack[65536];
  const sigset_t usr1 = set_of(SIGUSR1), segv = set_of(SIGSEGV);
  for (volatile int with_segv = 0; with_segv < 2; with_segv = with_segv + 1) {
    EXPECT(getcontext(&other_context) == 0);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = sizeof stack;
    other_context.uc_sigmask = with_segv ? segv : usr1;
    makecontext(&other_context, other, 0);
    for (int i = 0; i < 3000; ++i) EXPECT(swapcontext(&main_context, &other_context) == 0);
  }
  printf("switched %016llx\n", (unsigned long long)switches);
}

// A child begins with what its parent had set last.
static void inherit(uint64_t set) {
  fflush(stdout);
  EXPECT(set_mask(SIG_SETMASK, &set, NULL) == 0);
  const pid_t child = fork();
  if (child == 0) {
    EXPECT(status_mask("SigBlk") == set);
    const uint64_t none = 0;
    uint64_t old = 0;
    EXPECT(set_mask(SIG_SETMASK, &none, &old) == 0 && old == set);
    _exit(17);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 17 && status_mask("SigBlk") == set);
}

int main(void) {
  set_from_nowhere();
  for (int i = 0; i < kSentCount; ++i) install(kSent[i], on_signal, 0);
  printf("set %016llx\n", (unsigned long long)set_at_random(4000));
  switch_contexts();
  inherit(1ull << (SIGUSR1 - 1));
  inherit(1ull << (SIGUSR1 - 1) | 1ull << (SIGSEGV - 1));
  inherit(0);
  return 0;
}
