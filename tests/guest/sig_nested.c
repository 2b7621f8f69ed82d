// SPDX-License-Identifier: MIT
//
// How handlers combine: masks while one runs, nesting, SA_NODEFER, SA_RESETHAND, alternate stacks,
// signals that come one after the other, faults inside handlers, longjmp out of nested ones.
#include <setjmp.h>

#include "signals.h"

static char trace[4096];
static size_t trace_size;
static int depth;
static void note(const char* text) {
  const size_t size = strlen(text);
  EXPECT(trace_size + size < sizeof(trace));
  memcpy(trace + trace_size, text, size);
  trace_size += size;
}
static void flush(const char* name) {
  trace[trace_size] = 0;
  printf("%s: %s\n", name, trace);
  trace_size = 0;
}

static int is_blocked(int number) {
  sigset_t set;
  EXPECT(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
  return sigismember(&set, number);
}

static void outer(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  note("<1");
  note(is_blocked(number) ? "b" : "-");
  raise(SIGUSR2);
  if (depth++ == 0) raise(number);  // blocked now: comes after the return
  note("1>");
}
static void inner(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  note("(2");
  note(is_blocked(number) ? "b" : "-");
  note(is_blocked(SIGUSR1) ? "b" : "-");
  note("2)");
}
static void outer_once(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  note("<1");
  if (depth++ == 0) raise(number);
  note("1>");
}
static void recursive(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  note("<");
  if (++depth < 20) raise(number);
  note(">");
}
static void once(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  struct sigaction now;
  sigaction(number, NULL, &now);
  note(now.sa_handler == SIG_DFL ? "reset" : "kept");
}

static char alternate[65536];
static int on_alternate(const void* p) {
  return (const char*)p >= alternate && (const char*)p < alternate + sizeof(alternate);
}
static void where(int number, siginfo_t* info, void* context) {
  (void)info;
  char local;
  const ucontext_t* uc = context;
  note(on_alternate(&local) ? "alternate" : "normal");
  note(on_alternate((void*)uc->uc_mcontext.gregs[REG_RSP]) ? "<alternate " : "<normal ");
  stack_t now;
  sigaltstack(NULL, &now);
  note(now.ss_flags & SS_ONSTACK ? "on " : "off ");
  if (number == SIGUSR1) raise(SIGUSR2);
}

static sigjmp_buf landing;
static void fault_inside(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  if (number == SIGUSR1) {
    note("u");
    volatile uintptr_t nowhere = 8;
    *(volatile int*)nowhere = 1;
  }
  note("f");
  siglongjmp(landing, number);
}

static unsigned order_count;
static void order(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  char text[8];
  snprintf(text, sizeof(text), "%d ", number);
  note(text);
  ++order_count;
}

int main(void) {
  install(SIGUSR1, outer_once, 0);
  raise(SIGUSR1);
  flush("deferred");
  depth = 0;
  install(SIGUSR1, outer_once, SA_NODEFER);
  raise(SIGUSR1);
  flush("no defer");
  install(SIGUSR1, recursive, SA_NODEFER);
  depth = 0;
  raise(SIGUSR1);
  flush("recursive");

  install(SIGUSR2, inner, 0);
  struct sigaction action = {.sa_sigaction = outer_once, .sa_flags = SA_SIGINFO};
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, NULL);
  depth = 5;
  raise(SIGUSR1);
  flush("with mask");
  install(SIGUSR1, outer, 0);
  depth = 0;
  raise(SIGUSR1);
  flush("nested");
  signal(SIGUSR1, SIG_IGN);
  raise(SIGUSR1);
  install(SIGUSR1, once, SA_RESETHAND);
  raise(SIGUSR1);
  flush("reset hand");

  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
  EXPECT(sigaltstack(&stack, NULL) == 0);
  install(SIGUSR1, where, SA_ONSTACK);
  install(SIGUSR2, where, SA_ONSTACK);
  raise(SIGUSR1);
  install(SIGUSR2, where, 0);
  raise(SIGUSR2);
  flush("alternate stack");
  stack.ss_flags = SS_DISABLE;
  EXPECT(sigaltstack(&stack, NULL) == 0);
  raise(SIGUSR1);
  flush("disabled");

  install(SIGUSR1, fault_inside, 0);
  install(SIGSEGV, fault_inside, 0);
  for (volatile int i = 0; i < 200; ++i) {
    if (sigsetjmp(landing, 1) == 0) raise(SIGUSR1);
  }
  EXPECT(!is_blocked(SIGUSR1) && !is_blocked(SIGSEGV));
  flush("fault inside");

  // Several pending: unblocked at once, lowest number runs first and so is interrupted by the rest.
  sigset_t all, old;
  sigfillset(&all);
  EXPECT(sigprocmask(SIG_SETMASK, &all, &old) == 0);
  static const int kNumbers[] = {SIGTERM, SIGUSR2, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM};
  for (int i = 0; i < 6; ++i) install(kNumbers[i], order, 0);
  for (int i = 0; i < 6; ++i) raise(kNumbers[i]);
  EXPECT(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  flush("pending at once");
  EXPECT(order_count == 6);
  return 0;
}
