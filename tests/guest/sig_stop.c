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
  for (int i = 0; i < 2; ++i) {
    if (kStops[i] == SIGTSTP) signal(SIGTSTP, SIG_IGN);
    // Before the stop a SIGCONT would be lost, so the waker repeats it until it hears from us.
    int fds[2];
    EXPECT(pipe(fds) == 0);
    const pid_t waker = fork();
    EXPECT(waker >= 0);
    if (waker == 0) {
      EXPECT(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
      char byte;
      do {
        sleep_ms(100);
        kill(self, SIGCONT);
      } while (read(fds[0], &byte, 1) != 1);
      _exit(3);
    }
    continued = 0;
    kill(self, kStops[i]);
    while (continued == 0) sleep_ms(1);  // an ignored SIGTSTP does not stop
    EXPECT(write(fds[1], "x", 1) == 1);
    int status;
    EXPECT(waitpid(waker, &status, 0) == waker && WEXITSTATUS(status) == 3);
    printf("stop %d: continued\n", kStops[i]);
    close(fds[0]);
    close(fds[1]);
  }

  // A child that stops again, or exits, before it was waited for takes the news of its continuing
  // with it; so it goes on only when told.
  int go_on[2];
  EXPECT(pipe(go_on) == 0);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 3; ++i) {
      raise(SIGSTOP);
      char byte;
      EXPECT(read(go_on[0], &byte, 1) == 1);
    }
    _exit(9);
  }
  for (int i = 0; i < 3; ++i) {
    int status;
    EXPECT(waitpid(child, &status, WUNTRACED) == child);
    printf("child stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(child, SIGCONT);
    EXPECT(waitpid(child, &status, WCONTINUED) == child);
    printf("child continued %d\n", WIFCONTINUED(status));
    EXPECT(write(go_on[1], "x", 1) == 1);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  printf("child exited %d\n", WEXITSTATUS(status));
  return 0;
}
