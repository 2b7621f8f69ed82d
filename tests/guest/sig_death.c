// SPDX-License-Identifier: MIT
//
// Death by every signal whose default is to end the process: in children, seen by wait; and with an
// argument, of this process itself (sig_death.args lists the signals).
#include <sys/prctl.h>

#include "signals.h"

static void die_by(int number) {
  volatile uintptr_t zero = 0;
  switch (number) {
    case SIGSEGV:
      *(volatile char*)zero = 1;
      break;
    case SIGFPE:
      __asm__ volatile("xor %%ecx, %%ecx\n div %%ecx" ::: "eax", "ecx", "edx");
      break;
    case SIGILL:
      __asm__ volatile("ud2");
      break;
    case SIGTRAP:
      __asm__ volatile("int3");
      break;
    case SIGABRT:
      abort();
    default:
      raise(number);
  }
}

int main(int argc, char** argv) {
  prctl(PR_SET_DUMPABLE, 1);
  if (argc > 1 && strcmp(argv[1], "all") != 0) {
    printf("dying by %s\n", argv[1]);
    fflush(stdout);
    burn(1, 10000);
    die_by(atoi(argv[1]));
    return 0;
  }
  for (int number = 1; number <= 64; ++number) {
    if (number == 32 || number == 33) continue;  // glibc's own
    if (number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) continue;
    fflush(stdout);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      die_by(number);
      _exit(40);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) printf("%d: killed by %d\n", number, WTERMSIG(status));
    if (WIFEXITED(status)) printf("%d: exited %d\n", number, WEXITSTATUS(status));
  }
  return 0;
}
