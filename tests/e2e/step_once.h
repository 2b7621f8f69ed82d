// SPDX-License-Identifier: MIT
//
// One instruction of a traced program. For C and C++.
#ifndef TESTS_STEP_ONCE_H
#define TESTS_STEP_ONCE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

// Some hypervisors execute cpuid and the like for the processor, and lose the trap of the step.
static inline unsigned length_if_emulated(const unsigned char* code) {
  if (code[0] == 0x0f && code[1] == 0xa2) return 2;                     // cpuid
  if (code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xd0) return 3;  // xgetbv
  return 0;
}

// The thread stands at `rip`; `*status` is what waitpid() says of it afterwards. Behind what loses
// its trap there is a breakpoint meanwhile. False: see errno.
static inline bool step_once(pid_t thread, uint64_t rip, int signal, int* status) {
  unsigned char code[sizeof(long)];
  errno = 0;
  const long word = ptrace(PTRACE_PEEKTEXT, thread, (void*)rip, NULL);
  const bool can_read = errno == 0;
  memcpy(code, &word, sizeof code);
  const unsigned length = can_read && signal == 0 ? length_if_emulated(code) : 0;
  if (length == 0)
    return ptrace(PTRACE_SINGLESTEP, thread, NULL, (void*)(intptr_t)signal) == 0 &&
           waitpid(thread, status, 0) == thread;
  const uint64_t behind = rip + length;
  const long there = ptrace(PTRACE_PEEKTEXT, thread, (void*)behind, NULL);
  if (ptrace(PTRACE_POKETEXT, thread, (void*)behind, (void*)((there & ~0xffL) | 0xcc)) != 0 ||
      ptrace(PTRACE_CONT, thread, NULL, NULL) != 0 || waitpid(thread, status, 0) != thread)
    return false;
  if (!WIFSTOPPED(*status)) return true;
  if (ptrace(PTRACE_POKETEXT, thread, (void*)behind, (void*)there) != 0) return false;
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0) return false;
  if (registers.rip != behind + 1) return true;  // another signal came first
  registers.rip = behind;
  return ptrace(PTRACE_SETREGS, thread, NULL, &registers) == 0;
}

#endif
