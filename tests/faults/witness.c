// SPDX-License-Identifier: MIT
//
// witness MILLISECONDS: a program that notices what is done to it. It works in two threads, which
// pass words through pipes, has children, and gets signals of a timer. At the end it looks whether
// it has the descriptors, the children and the signal mask that it should have. It prints a line
// at the beginning and one at the end, the same each time. With "-" it works until its standard
// input ends.
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "../guest/guest.h"

static int to_other[2], to_main[2];
static volatile uint64_t ticks;

static void on_tick(int signal) {
  (void)signal;
  ticks++;
}

static int open_files(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  EXPECT(folder != NULL);
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static void* answer(void* unused) {
  (void)unused;
  uint64_t word;
  while (read(to_other[0], &word, sizeof word) == (ssize_t)sizeof word && word != 0) {
    word = burn(word, 20000);
    EXPECT(write(to_main[1], &word, sizeof word) == (ssize_t)sizeof word);
  }
  return NULL;
}

static uint64_t turn(uint64_t seed) {
  uint64_t word = seed | 1;
  EXPECT(write(to_other[1], &word, sizeof word) == (ssize_t)sizeof word);
  const uint64_t mine = burn(seed, 30000);
  EXPECT(read(to_main[0], &word, sizeof word) == (ssize_t)sizeof word);
  return mix(mine, word);
}

static void have_child(void) {
  const pid_t child = fork();
  if (child == 0) _exit(burn(7, 1000) != 0 ? 7 : 8);
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static uint64_t now_ms(void) {
  struct timespec now;
  EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int is_over(const char* word, uint64_t start_ms) {
  if (word[0] != '-') return now_ms() - start_ms >= (uint64_t)atoi(word);
  struct pollfd input = {0, POLLIN, 0};
  return poll(&input, 1, 0) == 1;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  EXPECT(write(1, "witness begins\n", 15) == 15);
  const int files = open_files();
  EXPECT(pipe(to_other) == 0 && pipe(to_main) == 0);
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
  const struct itimerval every = {{0, 7000}, {0, 7000}};
  EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
  pthread_t other;
  EXPECT(pthread_create(&other, NULL, answer, NULL) == 0);

  const uint64_t first = turn(1);
  const uint64_t start_ms = now_ms();
  for (unsigned round = 0; !is_over(argv[1], start_ms); round++) {
    EXPECT(turn(1) == first);
    if (round % 64 == 5) have_child();
  }

  const uint64_t end = 0;
  EXPECT(write(to_other[1], &end, sizeof end) == (ssize_t)sizeof end);
  EXPECT(pthread_join(other, NULL) == 0);
  const struct itimerval never = {{0, 0}, {0, 0}};
  EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
  for (int i = 0; i < 2; i++) EXPECT(close(to_other[i]) == 0 && close(to_main[i]) == 0);
  EXPECT(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
  EXPECT(open_files() == files);
  sigset_t blocked;
  EXPECT(sigprocmask(SIG_SETMASK, NULL, &blocked) == 0);
  for (int i = 1; i < 32; i++) EXPECT(sigismember(&blocked, i) == 0);
  printf("witness %016llx unharmed\n", (unsigned long long)first);
  return 0;
}
