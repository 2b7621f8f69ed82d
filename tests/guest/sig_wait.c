// SPDX-License-Identifier: MIT
//
// Signals taken without a handler: sigpending, sigsuspend, sigwaitinfo, sigtimedwait, signalfd; and
// queued real-time signals with their values and order; every way of sending one.
#include <pthread.h>
#include <sys/signalfd.h>

#include "signals.h"

static volatile int seen_number, seen_code, seen_value, handled;
static void handler(int number, siginfo_t* info, void* context) {
  (void)context;
  seen_number = number;
  seen_code = info->si_code;
  seen_value = info->si_value.sival_int;
  EXPECT(info->si_code == SI_KERNEL || info->si_pid == getpid());
  handled = handled + 1;
}

static void report(const char* name) {
  printf("%s: signal %d code %d handled %d\n", name, seen_number, seen_code, handled);
  seen_number = seen_code = handled = 0;
}

int main(void) {
  install(SIGUSR1, handler, 0);
  raise(SIGUSR1);
  report("raise");
  kill(getpid(), SIGUSR1);
  report("kill");
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
  report("tgkill");
  syscall(SYS_tkill, syscall(SYS_gettid), SIGUSR1);
  report("tkill");
  pthread_kill(pthread_self(), SIGUSR1);
  report("pthread_kill");
  sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 4711});
  printf("value %d\n", seen_value);
  report("sigqueue");
  kill(0, 0);

  sigset_t blocked = set_of(SIGUSR1), pending;
  sigaddset(&blocked, SIGRTMIN);
  sigaddset(&blocked, SIGRTMIN + 3);
  sigset_t old;
  EXPECT(sigprocmask(SIG_BLOCK, &blocked, &old) == 0);
  for (int i = 0; i < 5; ++i) raise(SIGUSR1);
  EXPECT(sigpending(&pending) == 0);
  printf("pending %d, in status %d, handled %d\n", sigismember(&pending, SIGUSR1),
         (status_mask("SigPnd") >> (SIGUSR1 - 1) & 1) | (status_mask("ShdPnd") >> (SIGUSR1 - 1) & 1)
             ? 1
             : 0,
         handled);
  siginfo_t info;
  struct timespec zero = {0, 0}, shortly = {0, 50000000};
  int got = sigwaitinfo(&blocked, &info);
  printf("sigwaitinfo %d code %d\n", got == SIGUSR1, info.si_code);
  got = sigtimedwait(&blocked, &info, &zero);
  printf("sigtimedwait %d errno %d\n", got, errno);
  got = sigtimedwait(&blocked, &info, &shortly);
  printf("sigtimedwait %d errno %d\n", got, errno);

  for (int i = 0; i < 4; ++i) {
    sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 100 + i});
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
  }
  for (int i = 0; i < 8; ++i) {
    got = sigwaitinfo(&blocked, &info);
    printf("queued %d value %d\n", got - SIGRTMIN, info.si_value.sival_int);
  }

  raise(SIGUSR1);
  sigset_t during = old;
  sigdelset(&during, SIGUSR1);
  got = sigsuspend(&during);
  printf("sigsuspend %d errno %d\n", got, errno);
  report("after sigsuspend");
  EXPECT(sigprocmask(SIG_SETMASK, NULL, &pending) == 0 && sigismember(&pending, SIGUSR1));

  const int fd = signalfd(-1, &blocked, SFD_NONBLOCK);
  EXPECT(fd >= 0);
  sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 77});
  struct signalfd_siginfo from_fd;
  EXPECT(read(fd, &from_fd, sizeof(from_fd)) == sizeof(from_fd));
  printf("signalfd %u value %d\n", from_fd.ssi_signo - (unsigned)SIGRTMIN, from_fd.ssi_int);
  EXPECT(read(fd, &from_fd, sizeof(from_fd)) == -1 && errno == EAGAIN);

  signal(SIGUSR1, SIG_IGN);
  raise(SIGUSR1);
  EXPECT(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  report("ignored");
  return 0;
}
