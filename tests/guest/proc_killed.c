// SPDX-License-Identifier: MIT
//
// A process is killed while it makes others. Those that it had made go on, whatever it was about
// to say of them: each ends, and with the last one the pipe that all of them hold.
#include "signals.h"

enum { kRounds = 15, kMostDelay_us = 400 };

static void make_children(int pipe_end) {
  for (;;) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      const char byte = 'c';
      EXPECT(write(pipe_end, &byte, 1) == 1);
      _exit(0);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
}

int main(void) {
  uint64_t random = 1;
  for (int round = 0; round < kRounds; round++) {
    int ends[2], status = 0;
    EXPECT(pipe(ends) == 0);
    const pid_t maker = fork();
    EXPECT(maker >= 0);
    if (maker == 0) {
      close(ends[0]);
      make_children(ends[1]);
    }
    close(ends[1]);
    char byte;
    EXPECT(read(ends[0], &byte, 1) == 1);
    usleep((useconds_t)(next_random(&random) % kMostDelay_us));
    EXPECT(kill(maker, SIGKILL) == 0 && waitpid(maker, &status, 0) == maker);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read(ends[0], &byte, 1) == 1) EXPECT(byte == 'c');
    close(ends[0]);
  }
  printf("%d killed\n", kRounds);
  return 0;
}
