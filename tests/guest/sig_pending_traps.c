// SPDX-License-Identifier: MIT
//
// SIGTRAP and SIGSEGV, which an engine raises itself, sent while they are blocked: one for the
// thread and one for the process. They stay pending through whatever the program does, are taken by
// whoever waits for them, are counted once each, and go through exec. Then a fault of the program's
// own with the same signal pending.
#include <pthread.h>

#include "signals.h"

static const int kinds[] = {SIGTRAP, SIGSEGV};
enum { KINDS = sizeof kinds / sizeof *kinds, THREADS = 3 };

static volatile int handled;
static void on_signal(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  handled = handled + (info->si_code == SI_TKILL ? 1 : info->si_code == SI_USER ? 100 : 10000);
}

// Fresh code, system calls and memory changes: what makes an engine stop the program.
static void work(void) {
  static uint64_t hash = 1;
  for (int i = 0; i < 20; i++) {
    hash = burn(hash, 5000);
    char text[64];
    snprintf(text, sizeof text, "%llx %d", (unsigned long long)hash, i);
    char* block = malloc(200000 + (size_t)i);
    EXPECT(block != NULL);
    block[0] = text[0];
    free(block);
    (void)getppid();
  }
}

static int is_pending(int number) {
  sigset_t set = set_of(0);
  EXPECT(sigpending(&set) == 0);
  return sigismember(&set, number);
}

static void* wait_in_thread(void* result) {
  const sigset_t set = set_of(SIGTRAP);
  EXPECT(raise(SIGTRAP) == 0);
  for (int i = 0; i < 50; i++) free(malloc(65536 * 4));
  EXPECT(sigwait(&set, result) == 0);
  return NULL;
}

static void check_waits(int number) {
  const sigset_t set = set_of(number);
  const struct timespec second = {1, 0};
  EXPECT(raise(number) == 0);
  work();
  printf("%d: taken %d,", number, sigtimedwait(&set, NULL, &second));

  EXPECT(raise(number) == 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(is_pending(number));
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  printf(" inherited %d,", WEXITSTATUS(status));
  sigset_t others;
  sigfillset(&others);
  sigdelset(&others, number);
  EXPECT(sigsuspend(&others) == -1 && errno == EINTR);
  printf(" suspended until %d,", handled);
  handled = 0;
}

static void check_both_queues(int number) {
  for (int first = 0; first < 2; first++) {
    EXPECT((first == 0 ? kill(getpid(), number) : raise(number)) == 0);
    work();
    EXPECT((first == 0 ? raise(number) : kill(getpid(), number)) == 0);
    work();
    printf(" pending %d", is_pending(number));
    change_mask(SIG_UNBLOCK, number);
    printf(" handled %d,", handled);
    handled = 0;
    change_mask(SIG_BLOCK, number);
  }
}

static int own_fault(int number, int is_sent, int has_handler) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (!has_handler) EXPECT(signal(number, SIG_DFL) != SIG_ERR);
    if (is_sent) EXPECT(raise(number) == 0);
    work();
    if (number == SIGTRAP) __asm__ volatile("int3");
    if (number == SIGSEGV)
      __asm__ volatile("xor %%eax, %%eax\n mov (%%rax), %%eax" ::: "eax", "memory");
    _exit(0);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    printf("%s: %d %d\n", argv[1], is_pending(SIGTRAP), is_pending(SIGSEGV));
    return 0;
  }
  for (int i = 0; i < KINDS; i++) {
    install(kinds[i], on_signal, 0);
    change_mask(SIG_BLOCK, kinds[i]);
    check_waits(kinds[i]);
    check_both_queues(kinds[i]);
    printf(" own faults die of %d %d %d %d\n", own_fault(kinds[i], 0, 0), own_fault(kinds[i], 0, 1),
           own_fault(kinds[i], 1, 0), own_fault(kinds[i], 1, 1));
  }
  pthread_t threads[THREADS];
  int taken[THREADS] = {0};
  for (int i = 0; i < THREADS; i++)
    EXPECT(pthread_create(&threads[i], NULL, wait_in_thread, &taken[i]) == 0);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  printf("threads %d %d %d\n", taken[0], taken[1], taken[2]);
  EXPECT(raise(SIGTRAP) == 0 && raise(SIGSEGV) == 0);
  fflush(stdout);
  execl("/proc/self/exe", argv[0], "after exec", NULL);
  return 1;
}
