// SPDX-License-Identifier: MIT
//
// Restartable sequences: counters of each processor that are right only if a thread that is taken
// off it, or signalled, begins anew; sequences that nothing but a signal, or membarrier(2), can
// end; the same in a forked child.
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kRounds = 1500, kProcessors = 4096, kApart = 8 };

static _Thread_local struct rseq own __attribute__((aligned(32)));
static long counts[kProcessors * kApart];
static volatile int entered, go_on, handled, alarms;
static int anything;

// The C library's, or one of our own where that has none.
static struct rseq* area(void) {
  if (__rseq_size != 0) return (struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
  if (own.cpu_id_start == 0 && own.cpu_id == 0) {
    own.cpu_id = RSEQ_CPU_ID_UNINITIALIZED;
    if (syscall(SYS_rseq, &own, sizeof own, 0, RSEQ_SIG) != 0) return NULL;
  }
  return &own;
}

#define DESCRIPTOR                                             \
  ".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"             \
  "3:\n\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
#define ANNOUNCE "leaq 3b(%%rip), %%rax\n\tmovq %%rax, %[pointer]\n1:\n\t"
#define ON_ABORT                                                                    \
  "2:\n\t.pushsection __rseq_failure, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t"         \
  ".long 0x53053053\n4:\n\tjmp %l[aborted]\n\t.popsection\n\t"

// The count goes up by one, however often that is begun.
static void count(struct rseq* r) {
  for (;;) {
    const uint32_t processor = __atomic_load_n(&r->cpu_id_start, __ATOMIC_RELAXED);
    __asm__ volatile goto(DESCRIPTOR ANNOUNCE
                          "cmpl %[processor], %[now]\n\t"
                          "jne %l[moved]\n\t"
                          "movq %[count], %%rdx\n\t"
                          "movl $3000, %%ecx\n"
                          "5:\n\t"
                          "decl %%ecx\n\t"
                          "jnz 5b\n\t"
                          "incq %%rdx\n\t"
                          "movq %%rdx, %[count]\n" ON_ABORT
                          :
                          : [pointer] "m"(r->rseq_cs), [processor] "r"(processor),
                            [now] "m"(r->cpu_id), [count] "m"(counts[processor * kApart])
                          : "rax", "rcx", "rdx", "cc", "memory"
                          : aborted, moved);
    return;
  aborted:
  moved:
    continue;
  }
}

// True: it was aborted, and there is no other way out.
static int stay(struct rseq* r) {
  __asm__ volatile goto(DESCRIPTOR ANNOUNCE
                        "movl $1, %[entered]\n"
                        "5:\n\t"
                        "testl %%eax, %%eax\n\t"
                        "jmp 5b\n" ON_ABORT
                        :
                        : [pointer] "m"(r->rseq_cs), [entered] "m"(entered)
                        : "rax", "cc", "memory"
                        : aborted);
  return 0;
aborted:
  return 1;
}

static void* counter(void* unused) {
  struct rseq* r = area();
  for (int i = 0; i < kRounds; i++) count(r);
  return unused;
}

// What stops it in between aborts it, too: it stays until it is told to go on.
static void* stayer(void* unused) {
  struct rseq* r = area();
  int aborted = 1;
  while (aborted && !go_on) aborted = stay(r);
  return aborted ? unused : NULL;
}

static void on_alarm(int signal) {
  (void)signal;
  alarms++;
  count(area());
}

static void on_user(int signal) {
  (void)signal;
  handled++;
  go_on = 1;
}

static long total(void) {
  long sum = 0;
  for (int i = 0; i < kProcessors; i++) sum += counts[i * kApart];
  return sum;
}

static void count_together(const char* who) {
  memset(counts, 0, sizeof counts);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, counter, NULL);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("%s: %ld of %d\n", who, total(), kThreads * kRounds);
  fflush(stdout);
}

static void stay_until(const char* what, int by_signal) {
  pthread_t thread;
  void* aborted = NULL;
  entered = 0;
  go_on = 0;
  pthread_create(&thread, NULL, stayer, &anything);
  while (!entered) usleep(100);
  if (by_signal) {
    pthread_kill(thread, SIGUSR1);
  } else {
    go_on = 1;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) != 0)
      printf("membarrier: %s\n", strerror(errno));
  }
  pthread_join(thread, &aborted);
  printf("%s: %s, %d handled\n", what, aborted ? "aborted" : "went on", handled);
  fflush(stdout);
}

int main(void) {
  if (area() == NULL) {
    printf("no rseq: %s\n", strerror(errno));
    return 0;
  }
  count_together("threads");

  signal(SIGUSR1, on_user);
  stay_until("signal", 1);
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0)
    stay_until("membarrier", 0);

  if (fork() == 0) {
    count_together("child");
    _exit(0);
  }
  int status = 0;
  wait(&status);
  printf("child ended with %d\n", status);

  // Handlers count as well, and interrupt those who do.
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  memset(counts, 0, sizeof counts);
  struct itimerval timer = {{0, 3000}, {0, 3000}}, none = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &timer, NULL);
  struct rseq* r = area();
  for (int i = 0; i < kRounds; i++) count(r);
  setitimer(ITIMER_REAL, &none, NULL);
  printf("with handlers: %s\n", total() == kRounds + alarms ? "all" : "not all");
  return 0;
}
