// SPDX-License-Identifier: MIT
//
// Sets timers of each kind, and says when they came: after how many rounds of work, and how much of
// which clock. machine.py runs it.
//
//   timers          sets them one after another
//   timers leave    sets some, and then the gs base, which ends an engine that traces
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static volatile sig_atomic_t came;
static volatile int last_code, last_number, last_value, last_overrun;
static volatile unsigned long rounds, at_round[8];

static void note(int signal, siginfo_t* info, void* context) {
  (void)context;
  if (came < 8) at_round[came] = rounds;
  came = came + 1;
  last_number = signal;
  last_code = info->si_code;
  last_value = info->si_code == SI_TIMER ? info->si_value.sival_int : 0;
  last_overrun = info->si_code == SI_TIMER ? info->si_overrun : 0;
}

static void begin(int signal) {
  struct sigaction action = {0};
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO;
  sigaction(signal, &action, NULL);
  came = 0;
  rounds = 0;
}

__attribute__((noinline)) static unsigned long work(unsigned long x) {
  for (int i = 0; i < 100; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  rounds++;
  return x;
}

static void work_until(int times) {
  unsigned long x = 1;
  while (came < times) x = work(x);
  if (x == 0) puts("nothing");
}

static long long now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void tell(const char* name, long long since_ns, clockid_t clock) {
  printf("%s: %d of signal %d, code %d, value %d, overrun %d, at rounds %lu %lu %lu, %lld ns\n",
         name, (int)came, last_number, last_code, last_value, last_overrun, at_round[0],
         at_round[1], at_round[2], now_ns(clock) - since_ns);
}

static void tell_left(const char* name, struct timeval left, struct timeval interval) {
  printf("%s: %ld.%06ld left, every %ld.%06ld\n", name, left.tv_sec, left.tv_usec,
         interval.tv_sec, interval.tv_usec);
}

static void tell_result(const char* name, int result) {
  printf("%s: %d %s\n", name, result, result == 0 ? "" : strerrorname_np(errno));
}

static void interval_timers(void) {
  const int kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF};
  for (int i = 0; i < 3; i++) {
    begin(signals[i]);
    const clockid_t clock = i == 0 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    const long long since = now_ns(clock);
    struct itimerval wanted = {{0, 10000}, {0, 20000}}, before = {{0, 0}, {0, 0}};
    setitimer(kinds[i], &wanted, NULL);
    work_until(3);
    tell("interval", since, clock);
    struct itimerval now;
    getitimer(kinds[i], &now);
    tell_left("interval", now.it_value, now.it_interval);
    memset(&wanted, 0, sizeof wanted);
    setitimer(kinds[i], &wanted, &before);
    printf("stopped: %d\n",
           before.it_value.tv_usec <= 10000 && before.it_interval.tv_usec == 10000);
  }
  const struct itimerval wrong = {{0, 0}, {0, 1000000}};
  tell_result("wrong", setitimer(ITIMER_REAL, &wrong, NULL));
  tell_result("no timer", setitimer(7, NULL, NULL));
}

// Sleeps in the kernel until it comes.
static void alarms(void) {
  begin(SIGALRM);
  const long long since = now_ns(CLOCK_MONOTONIC);
  alarm(7);
  printf("alarm: %u left\n", alarm(1));
  pause();
  tell("alarm", since, CLOCK_MONOTONIC);
  printf("alarm: %u left\n", alarm(0));
  // Ends a sleep that would be longer.
  begin(SIGALRM);
  struct itimerval wanted = {{0, 0}, {0, 30000}};
  setitimer(ITIMER_REAL, &wanted, NULL);
  struct timespec sleep = {5, 0}, left = {0, 0};
  const int result = nanosleep(&sleep, &left);
  printf("sleep: %d %s, about %ld ms left\n", result, strerrorname_np(errno),
         left.tv_sec * 1000 + left.tv_nsec / 1000000);
}

static void posix_timers(void) {
  timer_t timer;
  struct sigevent event = {0};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN + 3;
  event.sigev_value.sival_int = 42;
  event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
  begin(SIGRTMIN + 3);
  const long long since = now_ns(CLOCK_MONOTONIC);
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  struct itimerspec wanted = {{0, 5000000}, {0, 8000000}}, now;
  timer_settime(timer, 0, &wanted, NULL);
  work_until(3);
  tell("posix", since, CLOCK_MONOTONIC);
  timer_gettime(timer, &now);
  printf("posix: %ld left, every %ld\n", now.it_value.tv_nsec, now.it_interval.tv_nsec);
  // Blocked for some of its intervals.
  sigset_t blocked, former;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN + 3);
  sigprocmask(SIG_BLOCK, &blocked, &former);
  for (unsigned long x = 1, end = rounds + 400000; rounds < end;) x = work(x);
  sigprocmask(SIG_SETMASK, &former, NULL);
  printf("posix: overrun %d\n", timer_getoverrun(timer) > 1);
  timer_delete(timer);
  tell_result("deleted", timer_settime(timer, 0, &wanted, NULL));
  // At a moment, of processor time.
  begin(SIGALRM);
  timer_create(CLOCK_PROCESS_CPUTIME_ID, NULL, &timer);
  const long long used = now_ns(CLOCK_PROCESS_CPUTIME_ID), then = used + 20000000;
  const struct itimerspec moment = {{0, 0}, {then / 1000000000, then % 1000000000}};
  timer_settime(timer, TIMER_ABSTIME, &moment, NULL);
  work_until(1);
  tell("processor time", used, CLOCK_PROCESS_CPUTIME_ID);
  timer_delete(timer);
}

static volatile int notified;

static void on_thread(union sigval value) {
  notified = value.sival_int;
}

static void timer_threads(void) {
  timer_t timer;
  struct sigevent event = {0};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = on_thread;
  event.sigev_value.sival_int = 17;
  timer_create(CLOCK_REALTIME, &event, &timer);
  const struct itimerspec wanted = {{0, 0}, {0, 10000000}};
  timer_settime(timer, 0, &wanted, NULL);
  rounds = 0;
  for (unsigned long x = 1; notified == 0;) x = work(x);
  printf("thread: %d, after %lu rounds\n", notified, rounds);
  timer_delete(timer);
}

static void descriptors(void) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), other = dup(fd);
  const long long since = now_ns(CLOCK_MONOTONIC);
  const long long then = since + 30000000;
  const struct itimerspec wanted = {{0, 10000000}, {then / 1000000000, then % 1000000000}};
  printf("descriptor: %d\n", timerfd_settime(fd, TFD_TIMER_ABSTIME, &wanted, NULL));
  close(fd);
  const int all = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(all, EPOLL_CTL_ADD, other, &event);
  unsigned long long times = 0;
  for (int i = 0; i < 3; i++) {
    const int ready = epoll_wait(all, &event, 1, 1000);
    const long bytes = read(other, &times, sizeof times);
    printf("descriptor: %d ready, %ld bytes, %llu times, %lld ns\n", ready, bytes, times,
           now_ns(CLOCK_MONOTONIC) - since);
  }
  struct itimerspec now;
  timerfd_gettime(other, &now);
  printf("descriptor: every %ld, in time %d\n", now.it_interval.tv_nsec,
         now.it_value.tv_nsec > 0 && now.it_value.tv_nsec <= 10000000);
  const void* nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  tell_result("nowhere", timerfd_settime(other, 0, nowhere, NULL));
  tell_result("nowhere", nanosleep(nowhere, NULL));
  // A child reads it, though it has not set it.
  if (fork() == 0) {
    const long bytes = read(other, &times, sizeof times);
    printf("child: %ld bytes, %d\n", bytes, times >= 1);
    fflush(stdout);
    _exit(0);
  }
  wait(NULL);
  const struct itimerspec none = {{0, 0}, {0, 0}};
  timerfd_settime(other, 0, &none, &now);
  struct pollfd ready = {other, POLLIN, 0};
  printf("stopped: %d, %d ready\n", now.it_value.tv_nsec > 0, poll(&ready, 1, 20));
  tell_result("no timer", timerfd_settime(1, 0, &none, NULL));
}

static int ends[2];

static void* receive(void* unused) {
  (void)unused;
  char byte;
  const long result = recv(ends[0], &byte, 1, 0);
  notified = result == -1 && errno == EAGAIN ? 18 : 19;
  return NULL;
}

// One thread waits for what does not come, while another one works; then for what does come.
static void socket_timeouts(void) {
  const struct timeval length = {0, 20000};
  socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &length, sizeof length);
  for (int sent = 0; sent < 2; sent++) {
    const long long since = now_ns(CLOCK_MONOTONIC);
    pthread_t thread;
    notified = 0;
    rounds = 0;
    pthread_create(&thread, NULL, receive, NULL);
    for (unsigned long x = 1; notified == 0;) {
      x = work(x);
      if (sent && rounds == 10000 && write(ends[1], "x", 1) != 1) puts("not sent");
    }
    const unsigned long after = rounds;
    pthread_join(thread, NULL);
    printf("socket: %d after %lu rounds, %lld ns\n", notified, after,
           now_ns(CLOCK_MONOTONIC) - since);
  }
}

// A handler ends a call whose socket has a timeout, though other calls would be restarted.
static void socket_interrupted(void) {
  begin(SIGALRM);
  struct sigaction action;
  sigaction(SIGALRM, NULL, &action);
  action.sa_flags |= SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval length = {{0, 0}, {0, 5000}};
  setitimer(ITIMER_REAL, &length, NULL);
  char byte;
  const long result = recv(ends[0], &byte, 1, 0);
  printf("interrupted: %ld %s, %d\n", result, strerrorname_np(errno), (int)came);
}

static void leave(void) {
  static long place[16];
  sigset_t blocked, former;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGALRM);
  sigprocmask(SIG_BLOCK, &blocked, &former);
  begin(SIGALRM);
  const struct itimerval interval = {{0, 0}, {0, 200000}};
  const struct itimerspec length = {{0, 0}, {0, 300000000}};
  timer_t timer;
  timer_create(CLOCK_MONOTONIC, NULL, &timer);
  const int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  setitimer(ITIMER_REAL, &interval, NULL);
  timer_settime(timer, 0, &length, NULL);
  timerfd_settime(fd, 0, &length, NULL);
  syscall(SYS_arch_prctl, ARCH_SET_GS, place);
  while (came < 2) sigsuspend(&former);
  unsigned long long times = 0;
  const long bytes = read(fd, &times, sizeof times);
  printf("left: %d signals, %ld bytes, %llu times\n", (int)came, bytes, times);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc > 1 && strcmp(argv[1], "leave") == 0) {
    leave();
    return 0;
  }
  interval_timers();
  alarms();
  posix_timers();
  timer_threads();
  socket_timeouts();
  socket_interrupted();
  descriptors();
  return 0;
}
