// SPDX-License-Identifier: MIT
//
// Waits uninterruptibly, for a child of vfork(2) that sleeps and executes nothing.
#define _DEFAULT_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
  if (vfork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  return 0;
}
