// SPDX-License-Identifier: MIT
//
// Signal helpers of the guests: install, block, and read the kernel's own record of both.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "guest.h"

typedef void SignalHandler(int, siginfo_t*, void*);

static inline void install(int number, SignalHandler* handler, int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  EXPECT(sigaction(number, &action, NULL) == 0);
}

static inline sigset_t set_of(int number) {
  sigset_t set;
  sigemptyset(&set);
  if (number) sigaddset(&set, number);
  return set;
}

static inline void change_mask(int how, int number) {
  const sigset_t set = set_of(number);
  EXPECT(sigprocmask(how, &set, NULL) == 0);
}

// A mask as /proc/self/status has it ("SigBlk", "SigIgn", "SigCgt", "SigPnd").
static inline uint64_t status_mask(const char* key) {
  char text[8192];
  const int fd = open("/proc/self/status", O_RDONLY);
  EXPECT(fd >= 0);
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  EXPECT(size > 0);
  close(fd);
  text[size] = 0;
  const char* line = strstr(text, key);
  EXPECT(line != NULL);
  return strtoull(line + strlen(key) + 1, NULL, 16);
}

static inline void sleep_ms(long ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) EXPECT(errno == EINTR);
}

// Waits until process `pid` sleeps in the kernel, seen ten times in a row: however slowly it runs,
// it has reached the system call in which it is to be disturbed.
static inline void wait_until_asleep(pid_t pid) {
  char path[64], text[512];
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
  for (int seen = 0; seen < 10;) {
    sleep_ms(2);
    const int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    const ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    EXPECT(size > 0);
    text[size] = 0;
    const char* state = strrchr(text, ')');
    EXPECT(state != NULL);
    seen = state[2] == 'S' ? seen + 1 : 0;
  }
}
