// SPDX-License-Identifier: MIT
//
// Reads clocks, sleeps, and waits with timeouts; says what it was told. machine.py runs it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static long long nanoseconds(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return -1;
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct timespec later(clockid_t clock, long milliseconds) {
  const long long then = nanoseconds(clock) + milliseconds * 1000000LL;
  return (struct timespec){then / 1000000000, then % 1000000000};
}

// How many milliseconds the clock says that something took, of `wanted`.
static void took(const char* name, long long before, long wanted, long result) {
  const long long passed = nanoseconds(CLOCK_MONOTONIC) - before;
  const int right = passed >= wanted * 1000000LL && passed < (wanted + 2) * 1000000LL;
  printf("%s: %ld, %s, %lld\n", name, result, right ? "as long as it should" : "WRONG", passed);
}

static void tell_clocks(void) {
  for (clockid_t clock = CLOCK_REALTIME; clock <= CLOCK_TAI; clock++) {
    struct timespec resolution = {0, 0};
    const int known = clock_getres(clock, &resolution);
    printf("clock %d: %lld, %d %ld\n", clock, nanoseconds(clock), known, resolution.tv_nsec);
  }
  struct timeval day;
  struct timezone zone = {1, 1};
  gettimeofday(&day, &zone);
  printf("day: %ld %ld %d, %ld\n", day.tv_sec, day.tv_usec, zone.tz_minuteswest, time(NULL));
  unsigned core = 7;
  const unsigned long long first = __rdtsc(), second = __rdtscp(&core);
  printf("stamp: %llu, %llu more, core %u\n", first, second - first, core);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  struct tms ticks;
  const long tick = times(&ticks);
  printf("used: %ld.%06ld, %ld faults, %ld, %ld\n", used.ru_utime.tv_sec, used.ru_utime.tv_usec,
         used.ru_minflt, tick, ticks.tms_utime);
}

static void tell_waits(void) {
  const struct timespec third = {0, 3000000};
  long long before = nanoseconds(CLOCK_MONOTONIC);
  took("nanosleep", before, 3, nanosleep(&third, NULL));
  for (clockid_t clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
    const struct timespec then = later(clock, 4);
    before = nanoseconds(CLOCK_MONOTONIC);
    took("clock_nanosleep", before, 3, clock_nanosleep(clock, TIMER_ABSTIME, &then, NULL));
  }
  before = nanoseconds(CLOCK_MONOTONIC);
  took("poll", before, 5, poll(NULL, 0, 5));
  struct timeval length = {0, 6000};
  before = nanoseconds(CLOCK_MONOTONIC);
  took("select", before, 6, select(0, NULL, NULL, NULL, &length));
  const int events = epoll_create1(0);
  struct epoll_event event;
  before = nanoseconds(CLOCK_MONOTONIC);
  took("epoll", before, 2, epoll_wait(events, &event, 1, 2));
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const struct timespec then = later(CLOCK_REALTIME, 5);
  before = nanoseconds(CLOCK_MONOTONIC);
  const int result = sem_timedwait(&semaphore, &then);
  took(strerrorname_np(errno), before, 4, result);
}

static void tell_waits_that_end(void) {
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1) return;
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  struct timeval length = {3, 5};
  const int ready = select(ends[0] + 1, &set, NULL, NULL, &length);
  printf("remains: %d, %ld %ld\n", ready, length.tv_sec, length.tv_usec);
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec then = {{0, 0}, later(CLOCK_MONOTONIC, 2)};
  unsigned long long expired = 0;
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &then, NULL);
  const long got = read(timer, &expired, sizeof expired);
  printf("timer: %ld %llu\n", got, expired);
}

static void tell_other_waits(void) {
  const struct timespec third = {0, 3000000};
  long long before = nanoseconds(CLOCK_MONOTONIC);
  took("ppoll", before, 3, ppoll(NULL, 0, &third, NULL));
  before = nanoseconds(CLOCK_MONOTONIC);
  took("pselect", before, 3, pselect(0, NULL, NULL, NULL, &third, NULL));
  const int events = epoll_create1(0);
  struct epoll_event event;
  before = nanoseconds(CLOCK_MONOTONIC);
  took("epoll_pwait2", before, 3, syscall(SYS_epoll_pwait2, events, &event, 1, &third, NULL, 8));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  before = nanoseconds(CLOCK_MONOTONIC);
  took("sigtimedwait", before, 3, sigtimedwait(&signals, NULL, &third));
  const int semaphores = semget(IPC_PRIVATE, 1, 0600);
  struct sembuf down = {0, -1, 0};
  before = nanoseconds(CLOCK_MONOTONIC);
  took("semtimedop", before, 3, semtimedop(semaphores, &down, 1, &third));
  semctl(semaphores, 0, IPC_RMID);
  struct mq_attr shape = {.mq_maxmsg = 1, .mq_msgsize = 8};
  const mqd_t queue = mq_open("/shadowprof-clocks", O_RDWR | O_CREAT, 0600, &shape);
  mq_unlink("/shadowprof-clocks");
  struct timespec then = later(CLOCK_REALTIME, 4);
  char bytes[8];
  before = nanoseconds(CLOCK_MONOTONIC);
  took("mq_timedreceive", before, 3, mq_timedreceive(queue, bytes, sizeof bytes, NULL, &then));
  const int word = 1;
  then = later(CLOCK_MONOTONIC, 4);
  before = nanoseconds(CLOCK_MONOTONIC);
  const long result = syscall(455, &word, 1, ~0u, 2 | 128, &then, CLOCK_MONOTONIC);
  if (result == -1 && errno == ENOSYS) return;  // before Linux 6.7
  took("new futex", before, 3, result);
}

// Nothing is asked for, and so nothing comes.
static void tell_waits_for_files(void) {
  const struct timespec third = {0, 3000000};
  aio_context_t context = 0;
  struct io_event events[2];
  if (syscall(SYS_io_setup, 4, &context) != 0) return;
  long long before = nanoseconds(CLOCK_MONOTONIC);
  took("io_getevents", before, 3, syscall(SYS_io_getevents, context, 1, 2, events, &third));
  before = nanoseconds(CLOCK_MONOTONIC);
  took("io_pgetevents", before, 3, syscall(SYS_io_pgetevents, context, 1, 2, events, &third, 0));
  before = nanoseconds(CLOCK_MONOTONIC);
  took("io_getevents of none", before, 0, syscall(SYS_io_getevents, context, 0, 2, events, &third));
  syscall(SYS_io_destroy, context);
}

// Waits for one more than there are.
static void tell_waits_for_rings(void) {
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  const int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
  if (ring < 0 || (params.features & IORING_FEAT_EXT_ARG) == 0) {
    puts("no ring");
    return;
  }
  char* place = mmap(NULL, params.cq_off.cqes + 64 * sizeof(struct io_uring_cqe),
                     PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe* requests =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
  const struct timespec third = {0, 3000000};
  struct io_uring_getevents_arg argument = {0, 8, 0, (unsigned long)&third};
  const unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
  long long before = nanoseconds(CLOCK_MONOTONIC);
  took("ring", before, 3, syscall(SYS_io_uring_enter, ring, 0, 1, flags, &argument, 24));
  requests[0].opcode = IORING_OP_NOP;
  *(unsigned*)(place + params.sq_off.tail) += 1;
  before = nanoseconds(CLOCK_MONOTONIC);
  took("ring that does something", before, 3,
       syscall(SYS_io_uring_enter, ring, 1, 2, flags, &argument, 24));
  printf("ring: %u done\n", *(volatile unsigned*)(place + params.cq_off.tail));
  printf("ring: %d\n", argument.ts == (unsigned long)&third);
  const unsigned kMoment = 1u << 5;
  for (int ms = -5; ms <= 5; ms += 10) {
    const struct timespec then = later(CLOCK_MONOTONIC, ms);
    argument.ts = (unsigned long)&then;
    before = nanoseconds(CLOCK_MONOTONIC);
    const long result =
        syscall(SYS_io_uring_enter, ring, 0, 2, flags | kMoment, &argument, 24);
    if (result == -1 && errno == EINVAL) return;  // before Linux 6.12
    took("ring until", before, ms < 0 ? 0 : 4, result);
  }
}

static void set_timeout(int socket, int option, int milliseconds) {
  const struct timeval length = {0, milliseconds * 1000};
  if (setsockopt(socket, SOL_SOCKET, option, &length, sizeof length) != 0) puts("no timeout");
}

static void tell_waits_of_sockets(void) {
  int ends[2];
  char bytes[4096];
  memset(bytes, 1, sizeof bytes);
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  set_timeout(ends[0], SO_RCVTIMEO, 3);
  set_timeout(ends[0], SO_SNDTIMEO, 5);
  long long before = nanoseconds(CLOCK_MONOTONIC);
  took("recv", before, 3, recv(ends[0], bytes, 8, 0));
  before = nanoseconds(CLOCK_MONOTONIC);
  took("read", before, 3, read(ends[0], bytes, 8));
  before = nanoseconds(CLOCK_MONOTONIC);
  took("recv at once", before, 0, recv(ends[0], bytes, 8, MSG_DONTWAIT));
  if (write(ends[1], "abc", 3) != 3) puts("not written");
  before = nanoseconds(CLOCK_MONOTONIC);
  took("recv of some", before, 0, recv(ends[0], bytes, 8, 0));
  if (write(ends[1], "abc", 3) != 3) puts("not written");
  before = nanoseconds(CLOCK_MONOTONIC);
  took("recv of all", before, 3, recv(ends[0], bytes, 8, MSG_WAITALL));
  while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
  before = nanoseconds(CLOCK_MONOTONIC);
  took("send", before, 5, send(ends[0], bytes, sizeof bytes, 0));
  before = nanoseconds(CLOCK_MONOTONIC);
  took("write", before, 5, write(ends[0], bytes, sizeof bytes));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  const struct sockaddr_un anywhere = {.sun_family = AF_UNIX};
  bind(listener, (const struct sockaddr*)&anywhere, sizeof anywhere.sun_family);
  listen(listener, 1);
  set_timeout(listener, SO_RCVTIMEO, 4);
  before = nanoseconds(CLOCK_MONOTONIC);
  took("accept", before, 4, accept(listener, NULL, NULL));
  struct timeval kept = {0, 0};
  socklen_t size = sizeof kept;
  getsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &kept, &size);
  printf("kept: %d\n", kept.tv_sec == 0 && kept.tv_usec >= 4000 && kept.tv_usec < 14000);
}

// The second one is waited for in vain first, and that says nothing.
static void tell_children(void) {
  const struct rusage other = {.ru_maxrss = 1, .ru_nvcsw = 77};
  for (int i = 0; i < 3; i++) {
    int ends[2], status = 0;
    char byte;
    siginfo_t info;
    if (pipe(ends) != 0) return;
    const pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      for (volatile int loops = 0; loops < 1000000;) loops++;
      _exit(read(ends[0], &byte, 1) == 0 ? i : 9);
    }
    struct rusage used = other;
    if (i == 1) syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOHANG, &used);
    if (i == 1) printf("none: %d\n", memcmp(&used, &other, sizeof used));
    close(ends[1]);
    close(ends[0]);
    if (i == 2)
      syscall(SYS_waitid, P_PID, child, &info, WEXITED, &used);
    else
      wait4(child, &status, 0, &used);
    printf("child %d: %d, %d used %ld.%06ld %ld.%06ld %ld %ld %ld\n", i, WEXITSTATUS(status),
           used.ru_maxrss > 1, used.ru_utime.tv_sec, used.ru_utime.tv_usec, used.ru_stime.tv_sec,
           used.ru_stime.tv_usec, used.ru_minflt, used.ru_nvcsw, used.ru_nivcsw);
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  tell_clocks();
  tell_waits();
  tell_other_waits();
  tell_children();
  tell_waits_that_end();
  long loops = 0;
  const long long end = nanoseconds(CLOCK_MONOTONIC) + 10000000;
  while (nanoseconds(CLOCK_MONOTONIC) < end) loops++;
  for (const clock_t stop = clock() + 5000; clock() < stop;) loops++;
  for (const unsigned long long stop = __rdtsc() + 3000000; __rdtsc() < stop;) loops++;
  printf("loops: %ld\n", loops);
  tell_clocks();
  tell_waits_for_files();
  tell_waits_for_rings();
  tell_waits_of_sockets();
  tell_clocks();
  return 0;
}
