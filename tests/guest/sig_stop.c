// SPDX-License-Identifier: MIT
//
// Job control: a process that stops itself and is continued by a child, children that are stopped
// and continued and whose waiters are told (WUNTRACED, WCONTINUED), SIGCONT with a handler.
#include "signals.h"

static volatile int continued;
static void on_continue(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  continued = continued + 1;
}

int main(void) {
  install(SIGCONT, on_continue, SA_RESTART);
  const pid_t self = getpid();
  static const int kStops[] = {SIGSTOP, SIGTSTP};
  // An orphaned process group ignores SIGTSTP; a waker in between keeps both cases equal.
  for (int i = 0; i < 2; ++i) {
    if (kStops[i] == SIGTSTP) signal(SIGTSTP, SIG_IGN);
    const pid_t waker = fork();
    EXPECT(waker >= 0);
    if (waker == 0) {
      sleep_ms(100);
      kill(self, SIGCONT);
      _exit(3);
    }
    kill(self, kStops[i]);
    int status;
    EXPECT(waitpid(waker, &status, 0) == waker && WEXITSTATUS(status) == 3);
    printf("stop %d: continued %d times\n", kStops[i], continued);
  }

  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 3; ++i) raise(SIGSTOP);
    _exit(9);
  }
  for (int i = 0; i < 3; ++i) {
    int status;
    EXPECT(waitpid(child, &status, WUNTRACED) == child);
    printf("child stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(child, SIGCONT);
    EXPECT(waitpid(child, &status, WCONTINUED) == child);
    printf("child continued %d\n", WIFCONTINUED(status));
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  printf("child exited %d\n", WEXITSTATUS(status));
  return 0;
}
