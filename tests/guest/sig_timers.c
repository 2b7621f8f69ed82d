// SPDX-License-Identifier: MIT
//
// Timers and children: alarm and pause, timer_create to a thread id, timerfd, SIGCHLD counting with
// handlers and with SIG_IGN, SIGPIPE.
#include <sys/timerfd.h>

#include "signals.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static volatile int alarms, timer_signals, children, pipes;
static void handler(int number, siginfo_t* info, void* context) {
  (void)context;
  if (number == SIGALRM) alarms = alarms + 1;
  if (number == SIGRTMIN + 1) {
    EXPECT(info->si_code == SI_TIMER && info->si_value.sival_int == 99);
    timer_signals = timer_signals + 1;
  }
  if (number == SIGPIPE) pipes = pipes + 1;
  if (number != SIGCHLD) return;
  EXPECT(info->si_code == CLD_EXITED || info->si_code == CLD_KILLED);
  const int interrupted = errno;  // what it interrupts may be about to look at its own
  int status;
  while (waitpid(-1, &status, WNOHANG) > 0) children = children + 1;
  errno = interrupted;
}

int main(void) {
  install(SIGALRM, handler, 0);
  install(SIGPIPE, handler, 0);
  alarm(1);
  EXPECT(pause() == -1 && errno == EINTR);
  EXPECT(alarm(100) == 0 && alarm(0) >= 90);
  printf("alarms %d\n", alarms);

  install(SIGRTMIN + 1, handler, 0);
  struct sigevent event;
  memset(&event, 0, sizeof(event));
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN + 1;
  event.sigev_value.sival_int = 99;
  event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
  timer_t timer;
  EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const struct itimerspec times = {{0, 5000000}, {0, 5000000}};
  EXPECT(timer_settime(timer, 0, &times, NULL) == 0);
  uint64_t hash = 1;
  while (timer_signals < 20) hash = burn(hash, 1000);
  EXPECT(timer_delete(timer) == 0);
  printf("timer signals %d\n", timer_signals >= 20);

  const int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  EXPECT(fd >= 0 && timerfd_settime(fd, 0, &times, NULL) == 0);
  uint64_t expirations = 0, sum = 0;
  while (sum < 5) {
    EXPECT(read(fd, &expirations, 8) == 8);
    sum += expirations;
  }
  printf("timerfd %d\n", sum >= 5);

  install(SIGCHLD, handler, SA_RESTART);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      if (i % 3 == 0) raise(SIGKILL);
      _exit(i);
    }
  }
  while (children < 20) sleep_ms(5);
  EXPECT(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
  printf("children %d\n", children);
  signal(SIGCHLD, SIG_IGN);
  const pid_t child = fork();
  if (child == 0) _exit(1);
  EXPECT(waitpid(child, NULL, 0) == -1 && errno == ECHILD);

  int fds[2];
  EXPECT(pipe(fds) == 0);
  close(fds[0]);
  EXPECT(write(fds[1], "x", 1) == -1 && errno == EPIPE);
  printf("broken pipes %d\n", pipes);
  return 0;
}
