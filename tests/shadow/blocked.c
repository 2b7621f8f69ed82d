// SPDX-License-Identifier: MIT
//
// Its first thread is within a write(2) into a full pipe for two seconds, and a timer's signals
// arrive there. Then the pipe is read, and it prints how much came.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { kBytes = 1 << 20 };
static char bytes[kBytes];
static int ends[2];
static volatile sig_atomic_t ticks;

static void on_tick(int signal) {
  (void)signal;
  ticks++;
}

static void *read_late(void *count) {
  static char into[1 << 12];
  sleep(2);
  for (ssize_t n; *(long *)count < kBytes && (n = read(ends[0], into, sizeof into)) > 0;)
    *(long *)count += n;
  return NULL;
}

int main(void) {
  pthread_t reader;
  long count = 0, written = 0;
  if (pipe(ends) != 0) return 1;
  sigset_t tick;
  sigemptyset(&tick);
  sigaddset(&tick, SIGALRM);
  sigprocmask(SIG_BLOCK, &tick, NULL);  // in the reader
  if (pthread_create(&reader, NULL, read_late, &count) != 0) return 1;
  sigprocmask(SIG_UNBLOCK, &tick, NULL);
  const struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval period = {{0, 10000}, {0, 10000}};
  setitimer(ITIMER_REAL, &period, NULL);
  while (written < kBytes) {
    const ssize_t n = write(ends[1], bytes, (size_t)(kBytes - written));
    if (n > 0) written += n;
  }
  pthread_join(reader, NULL);
  printf("%ld bytes, %s\n", count, ticks > 100 ? "many signals" : "few signals");
  return 0;
}
