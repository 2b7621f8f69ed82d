// SPDX-License-Identifier: MIT
//
// Signals that are ignored end no sleep, and move no timeout: not those that come now and then, nor
// those that come with events, however many.
#include <arpa/inet.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "guest.h"

// More than a tenth of a second between two signals, and less than a timeout takes.
enum { kSignals_ms = 110, kTimeout_ms = 300, kEvents_ms = 7, kEvents = 100 };
static const struct timespec timeout = {0, kTimeout_ms * 1000000L};

static void sleep_ms(long ms) {
  const struct timespec length = {0, ms * 1000000};
  while (nanosleep(&length, NULL) != 0) continue;
}

static void say(const char* name, long result) {
  printf("%s: %ld errno %d\n", name, result, result < 0 ? errno : 0);
  errno = 0;
}

static int epoll_of(int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  const int epoll = epoll_create1(0);
  EXPECT(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
  return epoll;
}

static void wait_on_epoll(void) {
  int pipes[2];
  struct epoll_event event;
  EXPECT(pipe(pipes) == 0);
  const int epoll = epoll_of(pipes[0]);
  say("epoll_wait", epoll_wait(epoll, &event, 1, kTimeout_ms));
  long result = syscall(SYS_epoll_pwait2, epoll, &event, 1, &timeout, NULL, 0);
  if (result < 0 && errno == ENOSYS) result = 0;  // before Linux 5.11
  say("epoll_pwait2", result);
  struct pollfd polled = {.fd = pipes[0], .events = POLLIN};
  say("poll", poll(&polled, 1, kTimeout_ms));
}

static void wait_on_sockets(void) {
  int sockets[2];
  char byte;
  const struct timeval length = {0, kTimeout_ms * 1000};
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  EXPECT(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &length, sizeof length) == 0);
  say("recv", recv(sockets[0], &byte, 1, 0));
  say("read", read(sockets[0], &byte, 1));
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  const struct sockaddr nowhere = {.sa_family = AF_UNIX};
  EXPECT(bind(listening, &nowhere, sizeof nowhere.sa_family) == 0 && listen(listening, 1) == 0);
  EXPECT(setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &length, sizeof length) == 0);
  say("accept", accept(listening, NULL, NULL));
}

static void wait_on_others(void) {
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  EXPECT(sigprocmask(SIG_BLOCK, &usr2, NULL) == 0);
  say("sigtimedwait", sigtimedwait(&usr2, NULL, &timeout));
  const int semaphore = semget(IPC_PRIVATE, 1, 0600);
  EXPECT(semaphore >= 0);
  struct sembuf down = {0, -1, 0};
  say("semtimedop", semtimedop(semaphore, &down, 1, &timeout));
  EXPECT(semctl(semaphore, 0, IPC_RMID) == 0);
  aio_context_t context = 0;
  struct io_event event;
  EXPECT(syscall(SYS_io_setup, 1, &context) == 0);
  say("io_getevents", syscall(SYS_io_getevents, context, 1, 1, &event, &timeout));
  EXPECT(syscall(SYS_io_destroy, context) == 0);
}

static pid_t begin(void (*act)(int), int argument) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child != 0) return child;
  act(argument);
  _exit(0);
}

static void send_signals(int interval_ms) {
  const pid_t parent = getppid();
  while (kill(parent, SIGUSR1) == 0 && getppid() == parent) sleep_ms(interval_ms);
}

static void send_bytes(int fd) {
  for (int i = 0; i < kEvents; ++i) {
    EXPECT(write(fd, "x", 1) == 1);
    sleep_ms(kEvents_ms);
  }
}

static void end(pid_t child) {
  EXPECT(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

// No event comes late enough for the timeout, but all together take longer.
static void serve_events(void) {
  int pipes[2];
  EXPECT(pipe(pipes) == 0);
  const int epoll = epoll_of(pipes[0]);
  const pid_t writer = begin(send_bytes, pipes[1]);
  int events = 0, others = 0;
  while (events < kEvents) {
    struct epoll_event event;
    char byte;
    const int got = epoll_wait(epoll, &event, 1, kTimeout_ms);
    if (got == 1) EXPECT(read(pipes[0], &byte, 1) == 1);
    events += got == 1;
    others += got != 1;
  }
  printf("%d events, %d others\n", events, others);
  EXPECT(waitpid(writer, NULL, 0) == writer);
}

int main(void) {
  signal(SIGUSR1, SIG_IGN);
  const pid_t seldom = begin(send_signals, kSignals_ms);
  wait_on_epoll();
  wait_on_sockets();
  wait_on_others();
  end(seldom);
  const pid_t often = begin(send_signals, 2);
  serve_events();
  wait_on_epoll();
  end(often);
  return 0;
}
