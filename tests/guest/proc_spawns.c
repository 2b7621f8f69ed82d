// SPDX-License-Identifier: MIT
//
// Programs that are started by several threads at once, whose children have descriptors of their
// own before they execute, while other threads open and close sockets; and by a thread that does
// not share its process's descriptors.
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "signals.h"

extern char** environ;

enum { kThreads = 4, kSpawns = 6 };

static atomic_int running;

static int run(const char* path) {
  char* const arguments[] = {"true", NULL};
  pid_t child;
  const int error = posix_spawn(&child, path, NULL, NULL, arguments, environ);
  if (error != 0) return -error;
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

static void* spawn_some(void* unused) {
  for (int i = 0; i < kSpawns; ++i) EXPECT(run("/bin/true") == 0);
  running--;
  return unused;
}

// What nobody has sent does not come.
static void test_threads(void) {
  pthread_t threads[kThreads];
  running = kThreads;
  for (int i = 0; i < kThreads; ++i)
    EXPECT(pthread_create(&threads[i], NULL, spawn_some, NULL) == 0);
  int strays = 0;
  while (running > 0) {
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0);
    usleep(1500);
    for (int i = 0; i < 2; ++i) {
      char byte;
      strays += recv(pair[i], &byte, 1, MSG_DONTWAIT) >= 0;
      close(pair[i]);
    }
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("spawned by %d threads, %d strays\n", kThreads, strays);
}

static void* spawn_apart(void* unused) {
  EXPECT(unshare(CLONE_FILES) == 0);
  for (int i = 0; i < 16; ++i) EXPECT(open("/dev/null", O_RDONLY) >= 0);
  return spawn_some(unused);
}

static void test_apart(void) {
  pthread_t thread;
  running = 1;
  EXPECT(pthread_create(&thread, NULL, spawn_apart, NULL) == 0);
  pthread_join(thread, NULL);
  printf("spawned by a thread apart\n");
}

int main(void) {
  test_threads();
  test_apart();
  return 0;
}
