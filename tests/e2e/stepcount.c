// SPDX-License-Identifier: MIT
//
// usage: stepcount PROGRAM [ARG...]
//
// Counts the instructions of a small single-threaded program by single-stepping it: what the
// hardware says, to compare an engine's totals with. Prints the count; exits with the program's
// status. A repeated string instruction traps after every iteration (Intel SDM, "RFLAGS.TF") and
// counts once per execution, as in a profile. The instruction that ends the process counts too.
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step_once.h"

static int fail(const char* what) {
  fprintf(stderr, "stepcount: %s: %s\n", what, strerror(errno));
  return 125;
}

// Whether the instruction at `rip` has a repeat prefix: only such an instruction may be followed by
// itself without having branched.
static bool is_repeated(pid_t pid, uint64_t rip) {
  unsigned char bytes[8];
  const long word = ptrace(PTRACE_PEEKTEXT, pid, (void*)rip, NULL);
  memcpy(bytes, &word, sizeof(bytes));
  for (int i = 0; i < 8; ++i) {
    if (bytes[i] == 0xf3 || bytes[i] == 0xf2) return true;
    const bool other_prefix = bytes[i] == 0x66 || bytes[i] == 0x67 || bytes[i] == 0x2e ||
                              bytes[i] == 0x36 || bytes[i] == 0x3e || bytes[i] == 0x26 ||
                              bytes[i] == 0x64 || bytes[i] == 0x65;
    if (!other_prefix) return false;
  }
  return false;
}

static int count_steps(pid_t pid) {
  uint64_t count = 0;
  int status;
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0) return fail("cannot read registers");
  uint64_t rip = registers.rip;
  int signal_to_deliver = 0;
  for (;;) {
    if (!step_once(pid, registers.rip, signal_to_deliver, &status)) return fail("cannot step");
    if (!WIFSTOPPED(status)) break;
    signal_to_deliver = 0;
    if (WSTOPSIG(status) != SIGTRAP) {
      signal_to_deliver = WSTOPSIG(status);
      continue;
    }
    if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0) return fail("cannot read registers");
    if (registers.rip != rip || !is_repeated(pid, rip)) ++count;
    rip = registers.rip;
  }
  ++count;
  printf("%llu\n", (unsigned long long)count);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: stepcount PROGRAM [ARG...]\n");
    return 125;
  }
  const pid_t child = fork();
  if (child < 0) return fail("cannot fork");
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    execv(argv[1], argv + 1);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return fail("cannot start");
  return count_steps(child);
}
