// SPDX-License-Identifier: MIT
//
// mover WHAT [SECONDS]: makes system calls that move many bytes, each of which the kernel would cut
// short for a signal. Says how many were short; exits with 2 if a byte came wrong.
//
//   pipe, socket         a child reads what is written, or sent
//   slow-pipe, slow-socket   as these, with a child that reads a page each few milliseconds
//   all                  a child sends what is received with MSG_WAITALL
//   peek                 a child sends what is looked at with MSG_PEEK and MSG_WAITALL
//   datagrams            a child answers each datagram by one, and sends signals that are ignored;
//                        MSG_WAITALL does nothing there
//   messages             four datagrams at a time (recvmmsg), and ignored signals between them
//   timeouts             waits that end by their timeout, and ignored signals meanwhile
//   queue                signals that were queued, all of which come when they are let in
//   zero, random         large reads of /dev/zero, and of random bytes
//   ignored              as pipe, while the child sends signals that are ignored
//   handled              as pipe, with a timer whose handler restarts nothing: short calls are
//                        right, and what they say must be
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kBlock = (1 << 20) + 4099, kPiece = 30011, kSmallPiece = 307, kPeek = 100003 };

static char block[2 * kBlock];  // the stream, twice around
static long calls, shorts;

static void fail(const char *what) {
  perror(what);
  exit(2);
}

static void on_alarm(int signal) {
  (void)signal;
}

static volatile unsigned long sink;

static void compute(unsigned rounds) {
  for (unsigned i = 0; i < rounds; i++) sink += i;
}

static int is_over(double seconds) {
  static struct timespec start;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (start.tv_sec == 0) start = now;
  return (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) >
         seconds;
}

static void count(ssize_t got, size_t wanted) {
  calls++;
  if (got != (ssize_t)wanted) shorts++;
  compute(30000);
}

enum pace { kFast, kSlow, kSignalling };

// What comes must be the stream.
static int read_stream(int fd, enum pace pace) {
  static char piece[kPiece];
  size_t at = 0;
  ssize_t got;
  const size_t most = pace == kSlow ? 4096 : sizeof piece;
  for (unsigned n = 0; (got = read(fd, piece, most)) > 0; n++) {
    if (memcmp(piece, block + at, (size_t)got) != 0) return 2;
    at = (at + (size_t)got) % kBlock;
    if (pace == kSignalling && n % 16 == 0) kill(getppid(), SIGURG);
    if (pace == kSlow) usleep(4000);
    compute(20000);
  }
  return 0;
}

static void write_stream(int fd, int is_socket, double seconds) {
  for (size_t at = 0; !is_over(seconds);) {
    const ssize_t got = is_socket ? send(fd, block + at, kBlock, MSG_NOSIGNAL)
                                  : write(fd, block + at, kBlock);
    if (got < 0 && errno != EINTR) fail("write");
    count(got, kBlock);
    if (got > 0) at = (at + (size_t)got) % kBlock;
  }
}

static void send_stream(int fd, size_t piece) {
  for (size_t at = 0;;) {
    const ssize_t sent = send(fd, block + at, piece, MSG_NOSIGNAL);
    if (sent <= 0) _exit(0);
    at = (at + (size_t)sent) % kBlock;
    compute(20000);
  }
}

static void receive_stream(int fd, double seconds) {
  static char received[kBlock];
  for (size_t at = 0; !is_over(seconds);) {
    const ssize_t got = recv(fd, received, kBlock, MSG_WAITALL);
    if (got < 0) fail("recv");
    count(got, kBlock);
    if (memcmp(received, block + at, (size_t)got) != 0) fail("the stream");
    at = (at + (size_t)got) % kBlock;
  }
}

// Two that came as one would leave both sides waiting.
static void receive_datagrams(int fd, double seconds) {
  static char received[kBlock];
  while (!is_over(seconds)) {
    if (send(fd, "?", 1, 0) != 1) fail("send");
    const ssize_t got = recv(fd, received, kPeek, MSG_WAITALL);
    if (got < 0) fail("recv");
    count(got, kSmallPiece);
    if (memcmp(received, block, kSmallPiece) != 0) fail("the datagram");
  }
}

static void answer_by_datagrams(int fd) {
  char asked;
  while (recv(fd, &asked, 1, 0) == 1) {
    kill(getppid(), SIGURG);
    compute(20000);
    if (send(fd, block, kSmallPiece, 0) != kSmallPiece) _exit(3);
    kill(getppid(), SIGURG);
  }
  _exit(0);
}

static void move_datagrams(double seconds) {
  int ends[2], status;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) fail("socketpair");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    answer_by_datagrams(ends[0]);
  }
  close(ends[0]);
  receive_datagrams(ends[1], seconds);
  close(ends[1]);
  if (waitpid(child, &status, 0) != child || status != 0) fail("the other side");
}

// Ignored signals, this often.
static pid_t start_signalling(unsigned each_us) {
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  while (getppid() == parent) {
    usleep(each_us);
    kill(parent, SIGURG);
  }
  _exit(0);
}

static void end_child(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

static void receive_messages(double seconds) {
  enum { kMessages = 4 };
  static char bytes[kMessages][kSmallPiece];
  struct iovec parts[kMessages];
  struct mmsghdr all[kMessages];
  memset(all, 0, sizeof all);
  for (int i = 0; i < kMessages; i++) {
    parts[i] = (struct iovec){bytes[i], sizeof bytes[i]};
    all[i].msg_hdr.msg_iov = &parts[i];
    all[i].msg_hdr.msg_iovlen = 1;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) fail("socketpair");
  const pid_t signalling = start_signalling(5000), sending = fork();
  if (sending == 0)
    for (;;) {
      usleep(8000);
      if (send(ends[1], block, kSmallPiece, 0) != kSmallPiece) _exit(1);
    }
  while (!is_over(seconds)) {
    count(recvmmsg(ends[0], all, kMessages, 0, NULL), kMessages);
    count(recv(ends[0], bytes, sizeof bytes, 0), kSmallPiece);
    if (memcmp(bytes[kMessages - 1], block, kSmallPiece) != 0) fail("the message");
  }
  end_child(sending);
  end_child(signalling);
}

static void wait_for_timeouts(double seconds) {
  enum { kTimeout_ms = 50 };
  const pid_t signalling = start_signalling(7000);
  const int set = epoll_create1(0);
  while (!is_over(seconds)) {
    struct epoll_event event;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    if (epoll_wait(set, &event, 1, kTimeout_ms) != 0) fail("epoll_wait");
    clock_gettime(CLOCK_MONOTONIC, &after);
    const long took_us =
        (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
    count(took_us >= kTimeout_ms * 1000, 1);
  }
  end_child(signalling);
}

static volatile int queued;
static void on_queued(int signal) {
  (void)signal;
  queued = queued + 1;
}

static void let_queue_in(double seconds) {
  enum { kQueued = 100 };
  struct sigaction action = {.sa_handler = on_queued};
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMAX);
  sigaction(SIGRTMAX, &action, NULL);
  while (!is_over(seconds)) compute(30000);
  sigprocmask(SIG_BLOCK, &set, &before);
  for (int i = 0; i < kQueued; i++) sigqueue(getpid(), SIGRTMAX, (union sigval){.sival_int = i});
  sigprocmask(SIG_SETMASK, &before, NULL);
  count(queued, kQueued);
}

static void take(int fd, size_t at, int flags) {
  static char received[kPeek];
  const ssize_t got = recv(fd, received, kPeek, MSG_WAITALL | flags);
  if (got < 0) fail("recv");
  if (flags == MSG_PEEK) count(got, kPeek);
  if (memcmp(received, block + at, (size_t)got) != 0) fail("the stream");
}

static void peek_at_stream(int fd, double seconds) {
  for (size_t at = 0; !is_over(seconds); at = (at + kPeek) % kBlock) {
    take(fd, at, MSG_PEEK);
    take(fd, at, 0);
  }
}

// A local stream socket shows one piece at a time.
static void tcp_pair(int ends[2]) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof name;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), room = 4 * kPeek;
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  if (bind(listener, (struct sockaddr *)&name, sizeof name) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&name, &bytes) != 0 ||
      connect(ends[0], (struct sockaddr *)&name, sizeof name) != 0)
    fail("tcp");
  ends[1] = accept(listener, NULL, NULL);
  close(listener);
}

static void read_device(const char *path, double seconds) {
  FILE *file = path ? fopen(path, "r") : NULL;
  const size_t wanted = 16 * kBlock;
  char *bytes = malloc(wanted);
  while (!is_over(seconds)) {
    count(file ? read(fileno(file), bytes, wanted) : getrandom(bytes, kBlock, 0),
          file ? wanted : kBlock);
  }
  free(bytes);
}

static void move(const char *what, double seconds) {
  const int is_slow = strncmp(what, "slow-", 5) == 0;
  if (is_slow) what += 5;
  const int is_socket = strcmp(what, "socket") == 0 || strcmp(what, "all") == 0;
  const enum pace pace = is_slow ? kSlow : strcmp(what, "ignored") == 0 ? kSignalling : kFast;
  const int peeks = strcmp(what, "peek") == 0;
  const int receives = strcmp(what, "all") == 0 || peeks;
  int ends[2], status;
  if (peeks)
    tcp_pair(ends);
  else if (is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) fail("pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    if (receives) send_stream(ends[0], peeks ? kSmallPiece : kPiece);
    _exit(read_stream(ends[0], pace));
  }
  close(ends[0]);
  if (peeks)
    peek_at_stream(ends[1], seconds);
  else if (receives)
    receive_stream(ends[1], seconds);
  else
    write_stream(ends[1], is_socket, seconds);
  close(ends[1]);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
  if (waitpid(child, &status, 0) != child || status != 0) {
    fprintf(stderr, "the reader: %x\n", (unsigned)status);
    exit(2);
  }
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "pipe";
  const double seconds = argc > 2 ? atof(argv[2]) : 1;
  for (size_t i = 0; i < kBlock; i++) {
    block[i] = (char)(i * 2654435761u >> 13);
    block[kBlock + i] = block[i];
  }
  if (strcmp(what, "handled") == 0) {
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 700}, {0, 700}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
  }
  if (strcmp(what, "zero") == 0) {
    read_device("/dev/zero", seconds);
  } else if (strcmp(what, "random") == 0) {
    read_device(NULL, seconds);
  } else if (strcmp(what, "datagrams") == 0) {
    move_datagrams(seconds);
  } else if (strcmp(what, "messages") == 0) {
    receive_messages(seconds);
  } else if (strcmp(what, "timeouts") == 0) {
    wait_for_timeouts(seconds);
  } else if (strcmp(what, "queue") == 0) {
    let_queue_in(seconds);
  } else {
    move(what, seconds);
  }
  if (strcmp(what, "handled") != 0) printf("%ld short\n", shorts);
  return calls > 0 ? 0 : 1;
}
