// SPDX-License-Identifier: MIT
//
// First processes of PID namespaces: signals that nobody handles do not end them, but for those of
// their own instructions (pid_namespaces(7)), and no sleep of theirs ends because of one.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "guest.h"

static int* volatile nowhere;

static void touch_nowhere(void) {
  *nowhere = 1;
}

static void meet_int3(void) {
  __asm__ volatile("int3");
}

static void meet_ud2(void) {
  __asm__ volatile("ud2");
}

static void divide_by_zero(void) {
  __asm__ volatile("xorl %%ecx, %%ecx; movl $1, %%eax; cltd; idivl %%ecx" ::: "eax", "ecx", "edx");
}

// SIGABRT is ignored, and what comes behind it is an instruction.
static void give_up(void) {
  abort();
}

static void* die_beside(void* unused) {
  (void)unused;
  touch_nowhere();
  return NULL;
}

static void die_in_thread(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, die_beside, NULL) == 0);
  for (;;) pause();
}

// Signals that would end another process, from one that is inside: and a sleep that they meet.
static void outlive(void) {
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    const struct timespec moment = {0, 20000000};
    for (int i = 0; i < 10; ++i) {
      const int signals[] = {SIGTERM, SIGUSR1, SIGKILL, SIGTSTP, SIGSEGV};
      nanosleep(&moment, NULL);
      EXPECT(kill(1, signals[i % 5]) == 0);
    }
    _exit(3);
  }
  const struct timespec patience = {0, 500000000};
  EXPECT(sigtimedwait(&usr2, NULL, &patience) == -1 && errno == EAGAIN);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  EXPECT(raise(SIGTERM) == 0);
  _exit(9);
}

static void be_first(void (*act)(void)) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    EXPECT(getpid() == 1);
    const struct rlimit no_core = {0, 0};
    EXPECT(setrlimit(RLIMIT_CORE, &no_core) == 0);
    burn(1, 1000);
    act();
    _exit(2);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  printf("%s %d\n", WIFSIGNALED(status) ? "killed by" : "exited with",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

// A process can make one namespace only for its children, and who comes first in it is the only one
// for whom it is new.
static void in_namespace(void (*act)(void)) {
  fflush(stdout);
  const pid_t maker = fork();
  EXPECT(maker >= 0);
  if (maker == 0) {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
    be_first(act);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(maker, &status, 0) == maker && WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    puts("no PID namespaces here");
    exit(77);
  }
  EXPECT(WEXITSTATUS(status) == 0);
}

int main(void) {
  void (*const acts[])(void) = {touch_nowhere, meet_int3, meet_ud2,      divide_by_zero,
                                give_up,       outlive,   die_in_thread};
  for (size_t i = 0; i < sizeof acts / sizeof acts[0]; ++i) in_namespace(acts[i]);
  return 0;
}
