// SPDX-License-Identifier: MIT
//
// Children in every shape: fork (single, tree, from a thread, in a signal handler), vfork and exec,
// clone with CLONE_VM, double fork to a daemon, orphans, fork with shared memory; and what the
// parent's waits see of them. Children compute, so that their code and data must be their own.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "signals.h"

static uint64_t* shared;

static int wait_code(pid_t child) {
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void test_many(void) {
  int sum = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) _exit((int)(burn((uint64_t)i, 1000) % 7));
    sum += wait_code(child);
  }
  printf("100 children, codes add up to %d\n", sum);
  pid_t children[20];
  for (int i = 0; i < 20; ++i) {
    children[i] = fork();
    EXPECT(children[i] >= 0);
    if (children[i] == 0) {
      shared[i] = burn((uint64_t)i, 20000);
      _exit(i);
    }
  }
  int mask = 0;
  siginfo_t info;
  for (int i = 0; i < 20; ++i) {
    EXPECT(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_code == CLD_EXITED);
    for (int j = 0; j < 20; ++j)
      if (children[j] == info.si_pid && info.si_status == j) mask |= 1 << j;
  }
  EXPECT(waitid(P_ALL, 0, &info, WEXITED) == -1 && errno == ECHILD);
  printf("waitid saw %x, shared %016llx\n", (unsigned)mask,
         (unsigned long long)mix_bytes(1, shared, 20 * 8));
}

static uint64_t tree(int depth, uint64_t seed) {
  if (depth == 0) return burn(seed, 100) & 0x3f;
  int sum = 0;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) _exit((int)tree(depth - 1, seed * 2 + (uint64_t)i) & 0x3f);
    sum += wait_code(child);
  }
  return (uint64_t)sum;
}

static void* fork_in_thread(void* argument) {
  const pid_t child = fork();
  if (child == 0) _exit((int)(burn(5, 500) % 50));
  *(int*)argument = wait_code(child);
  return NULL;
}
static void test_threads(void) {
  int codes[8];
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i)
    EXPECT(pthread_create(&threads[i], NULL, fork_in_thread, &codes[i]) == 0);
  int sum = 0;
  for (int i = 0; i < 8; ++i) {
    pthread_join(threads[i], NULL);
    sum += codes[i];
  }
  printf("forked in threads %d\n", sum);
}

static void test_vfork(void) {
  volatile int sum = 0;
  for (volatile int i = 0; i < 30; ++i) {
    volatile int in_parent = 0;
    const pid_t child = vfork();
    EXPECT(child >= 0);
    if (child == 0) {
      in_parent = 1;  // the memory is the parent's
      if (i % 3 == 0) _exit(2);
      execl("/bin/sh", "sh", "-c", "exit 5", (char*)NULL);
      _exit(127);
    }
    sum += wait_code(child) + in_parent;
  }
  printf("vfork %d\n", sum);
  const pid_t child = vfork();
  if (child == 0) {
    execl("/nonexistent/program", "program", (char*)NULL);
    _exit(errno == ENOENT ? 33 : 1);
  }
  printf("failed exec %d\n", wait_code(child));
}

static char clone_stack[65536] __attribute__((aligned(16)));
static int in_clone(void* argument) {
  *(uint64_t*)argument = burn(3, 1000);
  return 12;
}
static void report_clone(const char* how, pid_t pid, const uint64_t* from_child) {
  const int code = wait_code(pid);
  printf("clone %s %d %016llx\n", how, code, (unsigned long long)*from_child);
}
static void test_clone(void) {
  uint64_t from_child = 0;
  int pid = clone(in_clone, clone_stack + sizeof(clone_stack), CLONE_VM | SIGCHLD, &from_child);
  EXPECT(pid > 0);
  report_clone("with memory", pid, &from_child);
  from_child = 0;
  pid = clone(in_clone, clone_stack + sizeof(clone_stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
              &from_child);
  report_clone("as vfork", pid, &from_child);
  from_child = 0;
  pid = clone(in_clone, clone_stack + sizeof(clone_stack), SIGCHLD, &from_child);
  report_clone("as fork", pid, &from_child);
  pid = clone(in_clone, clone_stack + sizeof(clone_stack), CLONE_VM, &from_child);
  EXPECT(pid > 0 && waitpid(pid, NULL, 0) == -1 && errno == ECHILD);
  int status;
  EXPECT(waitpid(pid, &status, __WALL) == pid && WEXITSTATUS(status) == 12);
}

static void test_daemon(void) {
  int fds[2];
  EXPECT(pipe(fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    // An orphan now; it reports through the pipe.
    while (getppid() != 1 && shared[100] == 0) sleep_ms(1);
    const uint64_t result = burn(77, 5000);
    EXPECT(write(fds[1], &result, 8) == 8);
    _exit(0);
  }
  EXPECT(wait_code(child) == 0);
  shared[100] = 1;
  uint64_t result = 0;
  EXPECT(read(fds[0], &result, 8) == 8);
  printf("daemon %016llx\n", (unsigned long long)result);
}

static void fork_in_handler(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  const pid_t child = fork();
  if (child == 0) _exit(21);
  shared[101] += (uint64_t)wait_code(child);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  test_many();
  printf("tree %llu\n", (unsigned long long)tree(4, 1));
  test_threads();
  test_vfork();
  test_clone();
  test_daemon();
  install(SIGUSR1, fork_in_handler, 0);
  for (int i = 0; i < 10; ++i) raise(SIGUSR1);
  printf("forked in a handler %llu\n", (unsigned long long)shared[101]);
  // The child goes on where a handler was, and with the parent's handlers.
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGUSR1);
    printf("handler in the child %llu\n", (unsigned long long)shared[101]);
    exit(4);
  }
  printf("child %d\n", wait_code(child));
  EXPECT(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
  return 0;
}
