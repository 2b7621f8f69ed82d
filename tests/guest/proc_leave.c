// SPDX-License-Identifier: MIT
//
// What an engine cannot run (a system call of 32-bit code) while other threads wait in vfork: they
// come back from it as if nothing had happened, fork and execute programs, or die there with the
// process.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "guest.h"

enum { kThreads = 3 };

// Children of vfork share them.
static atomic_int waiting, may_go;
static atomic_int child_of[kThreads];

// On a stack of its own, as the child uses it while its parent waits.
static __attribute__((noinline)) int wait_in_vfork(int number, int code) {
  const pid_t parent = getpid();
  const pid_t child = vfork();
  if (child == 0) {
    child_of[number] = getpid();
    waiting++;
    while (!may_go && getppid() == parent) usleep(1000);
    if (number == 1) execl("/bin/sh", "sh", "-c", "exit 12", (char*)NULL);
    _exit(code);
  }
  EXPECT(child == child_of[number]);
  int status;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int fork_once(int code) {
  const pid_t child = fork();
  if (child == 0) _exit((int)(burn((uint64_t)code, 1000) % 50));
  int status;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int codes[kThreads], forked[kThreads];
static void* thread(void* argument) {
  const int number = (int)(intptr_t)argument;
  codes[number] = wait_in_vfork(number, 3 + number);
  forked[number] = fork_once(number);
  return NULL;
}

static void make_old_call(void) {
  const int kOldGetpid = 20;
  int result;
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "0"(kOldGetpid)
                   : "memory", "r8", "r9", "r10", "r11");
  EXPECT(result == getpid());
}

static void execute(void) {
  printf("executes\n");
  fflush(stdout);
  execl("/bin/sh", "sh", "-c", "echo another program; exit 9", (char*)NULL);
}

// The first thread waits, and another one takes its place.
static void* execute_beside(void* argument) {
  while (waiting != 1) usleep(1000);
  make_old_call();
  execute();
  return argument;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "join";
  pthread_t other;
  if (strcmp(how, "leader") == 0) {
    EXPECT(pthread_create(&other, NULL, execute_beside, NULL) == 0);
    return wait_in_vfork(0, 3);
  }
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i)
    EXPECT(pthread_create(&threads[i], NULL, thread, (void*)i) == 0);
  while (waiting != kThreads) usleep(1000);
  make_old_call();
  // While its threads wait.
  if (strcmp(how, "exit") == 0) {
    printf("ends\n");
    fflush(stdout);
    _exit(7);
  }
  if (strcmp(how, "exec") == 0) execute();
  if (strcmp(how, "fork") == 0) printf("forked %d\n", fork_once(40));
  may_go = 1;
  for (int i = 0; i < kThreads; ++i) {
    EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("child %d, forked %d\n", codes[i], forked[i]);
  }
  printf("end\n");
  return 0;
}
