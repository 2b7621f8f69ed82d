// SPDX-License-Identifier: MIT
//
// Other processes send signals without a pause: one is pending whenever a handler returns. The
// program must get on nevertheless, through system calls that change the mask and through a
// computation without any, and must not lose the signal sent last.
#include <sys/prctl.h>

#include "signals.h"

static volatile uint64_t floods;
static volatile int last_came;
static void on_flood(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  floods++;
}
static void on_last(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  last_came = 1;
}

int main(void) {
  install(SIGUSR1, on_flood, SA_RESTART);
  install(SIGUSR2, on_last, 0);
  const pid_t parent = getpid();
  pid_t senders[4];
  for (int i = 0; i < 4; ++i) {
    senders[i] = fork();
    EXPECT(senders[i] >= 0);
    if (senders[i] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (kill(parent, SIGUSR1) == 0) {
    }
    _exit(0);
  }
  while (floods == 0) usleep(100);

  uint64_t hash = 1;
  const sigset_t none = set_of(0);
  for (int i = 0; i < 200; ++i) {
    hash = burn(hash, 1000);
    change_mask(SIG_BLOCK, SIGUSR1);
    const uint64_t before = floods;
    hash = burn(hash, 100);
    EXPECT(floods == before);
    EXPECT(sigsuspend(&none) == -1 && errno == EINTR && floods != before);
    EXPECT(status_mask("SigBlk") == UINT64_C(1) << (SIGUSR1 - 1));
    change_mask(SIG_UNBLOCK, SIGUSR1);
    EXPECT(status_mask("SigBlk") == 0);
  }
  hash = burn(hash, 3000000);
  EXPECT(kill(parent, SIGUSR2) == 0 && last_came);
  for (int i = 0; i < 4; ++i) {
    EXPECT(kill(senders[i], SIGKILL) == 0);
    while (waitpid(senders[i], NULL, 0) < 0) EXPECT(errno == EINTR);
  }
  printf("computed %016llx\n", (unsigned long long)hash);
  return 0;
}
