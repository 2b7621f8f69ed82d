// SPDX-License-Identifier: MIT
//
// Programs that trace their own children: at once after the fork, by the child's own wish, and when
// it is stopped, without waiting for it. What a tracer sees of the processor's debug registers. And
// children that are not to be traced (CLONE_UNTRACED): processes, processes that share memory, and
// threads.
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "guest.h"

enum { kRounds = 20 };

static void wait_for_end(pid_t child, int status) {
  int got = 0;
  EXPECT(waitpid(child, &got, __WALL) == child);
  EXPECT(WIFEXITED(got) && WEXITSTATUS(got) == status);
}

static void trace_child(int request) {
  int status = 0;
  int gate[2];
  EXPECT(pipe(gate) == 0);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    char byte;
    close(gate[1]);
    if (read(gate[0], &byte, 1) != 0) _exit(1);
    _exit((int)(burn(3, 1000) % 50) + 3);
  }
  EXPECT(ptrace(request, child, 0, 0) == 0);
  if (request == PTRACE_SEIZE) EXPECT(ptrace(PTRACE_INTERRUPT, child, 0, 0) == 0);
  EXPECT(waitpid(child, &status, __WALL) == child && WIFSTOPPED(status));
  close(gate[0]);
  close(gate[1]);
  EXPECT(ptrace(PTRACE_CONT, child, 0, 0) == 0);
  wait_for_end(child, (int)(burn(3, 1000) % 50) + 3);
}

static void* debug_register(int index) {
  return (void*)(offsetof(struct user, u_debugreg) + (size_t)index * sizeof(long));
}

static void expect_no_breakpoints(pid_t child) {
  const long kHit = 0xe00f;  // what register 6 says of traps that there were
  for (int i = 0; i < 8; ++i) {
    if (i == 4 || i == 5) continue;
    errno = 0;
    const long value = ptrace(PTRACE_PEEKUSER, child, debug_register(i), 0);
    EXPECT(errno == 0 && (i == 6 ? (value & kHit) == 0 : value == 0));
  }
}

static volatile long watched __attribute__((aligned(8)));

static void watch_child(void) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    EXPECT(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    watched = (long)burn(2, 1000);
    _exit(5);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
  EXPECT(WSTOPSIG(status) == SIGSTOP);
  expect_no_breakpoints(child);
  const long kEightBytesWritten = 0x90001;
  EXPECT(ptrace(PTRACE_POKEUSER, child, debug_register(0), (long)&watched) == 0);
  EXPECT(ptrace(PTRACE_POKEUSER, child, debug_register(7), kEightBytesWritten) == 0);
  EXPECT(ptrace(PTRACE_CONT, child, 0, 0) == 0);
  EXPECT(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
  EXPECT(WSTOPSIG(status) == SIGTRAP);
  errno = 0;
  EXPECT(ptrace(PTRACE_PEEKDATA, child, (void*)&watched, 0) == (long)burn(2, 1000) && errno == 0);
  EXPECT(ptrace(PTRACE_CONT, child, 0, 0) == 0);
  wait_for_end(child, 5);
}

// A child that is stopped is its tracer's as soon as that has attached.
static void trace_stopped_child(void) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    raise(SIGSTOP);
    _exit((int)(burn(3, 1000) % 50) + 3);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  EXPECT(ptrace(PTRACE_ATTACH, child, 0, 0) == 0);
  expect_no_breakpoints(child);
  EXPECT(ptrace(PTRACE_DETACH, child, 0, 0) == 0);
  EXPECT(kill(child, SIGCONT) == 0);
  wait_for_end(child, (int)(burn(3, 1000) % 50) + 3);
}

static volatile long shared;

static int work(void* argument) {
  shared = (long)burn((uint64_t)(uintptr_t)argument, 5000);
  return 9;
}

static void untraced_process(int shares) {
  static char stack[65536] __attribute__((aligned(16)));
  shared = 0;
  const int flags = CLONE_UNTRACED | SIGCHLD | (shares ? CLONE_VM : 0);
  const pid_t child = clone(work, stack + sizeof stack, flags, (void*)5);
  EXPECT(child > 0);
  wait_for_end(child, 9);
  EXPECT(shared == (shares ? (long)burn(5, 5000) : 0));
}

static void untraced_by_clone3(void) {
  struct clone_args arguments = {.flags = CLONE_UNTRACED, .exit_signal = SIGCHLD};
  const long child = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) _exit((int)(burn(4, 1000) % 50) + 3);
  EXPECT(child > 0);
  wait_for_end((pid_t)child, (int)(burn(4, 1000) % 50) + 3);
}

static void untraced_thread(void) {
  static char stack[65536] __attribute__((aligned(16)));
  static volatile int alive;
  alive = 1;
  shared = 0;
  // The kernel clears `alive` when the thread has ended.
  const int flags = CLONE_UNTRACED | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                    CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  EXPECT(clone(work, stack + sizeof stack, flags, (void*)6, NULL, NULL, (void*)&alive) > 0);
  while (alive) sched_yield();
  EXPECT(shared == (long)burn(6, 5000));
}

int main(void) {
  for (int round = 0; round < kRounds; ++round) {
    trace_child(PTRACE_SEIZE);
    trace_child(PTRACE_ATTACH);
    watch_child();
    trace_stopped_child();
  }
  for (int round = 0; round < kRounds; ++round) {
    untraced_process(0);
    untraced_process(1);
    untraced_by_clone3();
    untraced_thread();
  }
  puts("done");
  return 0;
}
