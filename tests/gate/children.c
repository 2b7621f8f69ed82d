// SPDX-License-Identifier: MIT
//
// Starts shells with pipelines, and waits for them with a handler of SIGCHLD: says in which order
// they ended, and how many signals had come by then. threads.py runs it.
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kChildren = 6 };

extern char** environ;
static volatile sig_atomic_t signals;

static void count(int signal) {
  (void)signal;
  signals = signals + 1;
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = count;
  sigaction(SIGCHLD, &action, NULL);
  char* const shell[] = {"sh", "-c", "head -n 300 input | sort | tail -n 1 >/dev/null", NULL};
  pid_t children[kChildren];
  for (int i = 0; i < kChildren; i++)
    if (posix_spawnp(&children[i], "sh", NULL, NULL, shell, environ) != 0) return 1;
  for (int left = kChildren, interrupted = 0; left > 0;) {
    const pid_t ended = waitpid(-1, NULL, 0);
    if (ended < 0 && errno != EINTR) return 1;
    interrupted += ended < 0;
    left -= ended > 0;
    for (int i = 0; i < kChildren; i++)
      if (children[i] == ended)
        printf("child %d, %d signals, %d interrupted\n", i, (int)signals, interrupted);
  }
  return 0;
}
