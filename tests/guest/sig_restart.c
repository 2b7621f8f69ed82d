// SPDX-License-Identifier: MIT
//
// System calls that a signal interrupts: read from a pipe with and without SA_RESTART, nanosleep
// (EINTR and the remaining time), poll, select, pause, waitpid, futex-based waits, and calls that
// are never restarted. A child sends the signals, and only
// when it sees the parent asleep in the kernel.
#include <poll.h>
#include <semaphore.h>
#include <sys/select.h>

#include "signals.h"

static volatile int handled;
static void handler(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  handled = handled + 1;
}

// A child that signals us `count` times, then writes a byte to `fd` if there is one.
static pid_t start_signaller(int count, int fd) {
  const pid_t parent = getpid();
  fflush(stdout);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    for (int i = 0; i < count; ++i) {
      sleep_ms(20);
      wait_until_asleep(parent);
      kill(parent, SIGUSR1);
    }
    sleep_ms(20);
    wait_until_asleep(parent);
    if (fd >= 0) EXPECT(write(fd, "x", 1) == 1);
    _exit(0);
  }
  return child;
}

static void reap(pid_t child) {
  int status;
  pid_t got;
  do got = waitpid(child, &status, 0);
  while (got < 0 && errno == EINTR);
  EXPECT(got == child && status == 0);
}

static void test_read(int flags, const char* name) {
  int fds[2];
  EXPECT(pipe(fds) == 0);
  install(SIGUSR1, handler, flags);
  handled = 0;
  const pid_t child = start_signaller(3, fds[1]);
  int interrupted = 0;
  char byte = 0;
  ssize_t got;
  while ((got = read(fds[0], &byte, 1)) < 0) {
    EXPECT(errno == EINTR);
    ++interrupted;
  }
  reap(child);
  printf("read %s: got %zd %c, handled %d, interrupted %d\n", name, got, byte, handled,
         interrupted);
  close(fds[0]);
  close(fds[1]);
}

#define EXPECT_INTERRUPTED(name, call)                                       \
  do {                                                                       \
    handled = 0;                                                             \
    const pid_t child = start_signaller(1, -1);                              \
    errno = 0;                                                               \
    const long result = (long)(call);                                        \
    const int error = errno;                                                 \
    reap(child);                                                             \
    printf("%s: %ld, errno %d, handled %d\n", name, result, error, handled); \
  } while (0)

int main(void) {
  test_read(0, "without restart");
  test_read(SA_RESTART, "with restart");

  install(SIGUSR1, handler, SA_RESTART);
  struct timespec long_time = {20, 0}, left = {0, 0};
  EXPECT_INTERRUPTED("nanosleep", nanosleep(&long_time, &left));
  printf("time left: %d\n", left.tv_sec >= 15 && left.tv_sec < 20);
  EXPECT_INTERRUPTED("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, &left));
  int fds[2];
  EXPECT(pipe(fds) == 0);
  struct pollfd waiting = {.fd = fds[0], .events = POLLIN};
  EXPECT_INTERRUPTED("poll", poll(&waiting, 1, 20000));
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fds[0], &set);
  struct timeval timeout = {20, 0};
  EXPECT_INTERRUPTED("select", select(fds[0] + 1, &set, NULL, NULL, &timeout));
  EXPECT_INTERRUPTED("pause", pause());
  sem_t never;
  EXPECT(sem_init(&never, 0, 0) == 0);
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += 20;
  install(SIGUSR1, handler, 0);
  EXPECT_INTERRUPTED("sem_timedwait", sem_timedwait(&never, &deadline));
  EXPECT_INTERRUPTED("sem_wait", sem_wait(&never));
  sigset_t usr2 = set_of(SIGUSR2);
  EXPECT_INTERRUPTED("sigtimedwait", sigtimedwait(&usr2, NULL, &long_time));

  // A sleep that is interrupted often still ends after what was left.
  install(SIGUSR1, handler, SA_RESTART);
  handled = 0;
  const pid_t child = start_signaller(8, -1);
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  sleep_ms(600);
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double ms =
      (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
  reap(child);
  printf("slept long enough %d, handled %d\n", ms >= 599.0, handled);
  return 0;
}
