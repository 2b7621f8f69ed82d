// SPDX-License-Identifier: MIT
//
// Regions whose ends are not simple returns, for within.py. Each is entered a known number of
// times; inside_* are called in one of them only, and outside_* in none.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shadowprof/marks.h"

#define NOINLINE __attribute__((noinline))

namespace {

volatile long sink;
constexpr int kTimes = 50;

}  // namespace

extern "C" {

NOINLINE void outside_work() {
  for (int i = 0; i < 100; i++) sink = sink + i;
}
NOINLINE void inside_throw() {
  for (int i = 0; i < 7; i++) sink = sink + i;
}
NOINLINE void inside_jump() {
  for (int i = 0; i < 9; i++) sink = sink + i;
}
NOINLINE void inside_thread() {
  for (int i = 0; i < 11; i++) sink = sink + i;
}
NOINLINE void inside_handler() {
  for (int i = 0; i < 13; i++) sink = sink + i;
}
NOINLINE void inside_fiber() {
  for (int i = 0; i < 17; i++) sink = sink + i;
}
NOINLINE void inside_marks() {
  for (int i = 0; i < 19; i++) sink = sink + i;
}

NOINLINE void throws(int n) {
  inside_throw();
  if (n % 2 == 0) throw n;
}

jmp_buf target;
NOINLINE void jumps(int n) {
  char room[256];
  std::memset(room, n, sizeof room);
  sink = room[n];
  inside_jump();
  if (n % 3 == 0) longjmp(target, 1);
  inside_jump();
}

NOINLINE void* threads(void*) {
  inside_thread();
  return nullptr;
}

sigjmp_buf resume;
NOINLINE void handler(int) {
  inside_handler();
}
NOINLINE void leaving_handler(int) {
  inside_handler();
  siglongjmp(resume, 1);
}
// Its handlers run while it is active.
NOINLINE void interrupted(int n) {
  if (n % 2 == 0) {
    raise(SIGUSR1);
  } else {
    raise(SIGUSR2);
    std::abort();
  }
}

ucontext_t own, fiber;
NOINLINE void fiber_main() {
  for (;;) {
    outside_work();
    swapcontext(&fiber, &own);
  }
}
NOINLINE void switches() {
  inside_fiber();
  swapcontext(&own, &fiber);
  inside_fiber();
}

}  // extern "C"

namespace {

void run_throws() {
  for (int i = 0; i < kTimes; i++) {
    try {
      throws(i);
    } catch (int) {
      outside_work();
    }
    outside_work();
  }
}

void run_jumps() {
  static int i;  // longjmp leaves it alone
  for (i = 0; i < kTimes; i++) {
    if (setjmp(target) == 0) jumps(i);
    outside_work();
  }
}

void run_threads() {
  pthread_t all[4];
  for (pthread_t& one : all) pthread_create(&one, nullptr, threads, nullptr);
  for (pthread_t& one : all) pthread_join(one, nullptr);
}

void run_handlers(bool own_stack) {
  stack_t stack{};
  stack.ss_size = 65536;
  stack.ss_sp = std::malloc(stack.ss_size);
  if (own_stack) sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_flags = own_stack ? SA_ONSTACK : 0;
  action.sa_handler = handler;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = leaving_handler;
  sigaction(SIGUSR2, &action, nullptr);
  static int i;  // siglongjmp leaves it alone
  for (i = 0; i < kTimes; i++) {
    if (sigsetjmp(resume, 1) == 0) interrupted(i);
    outside_work();
  }
}

void run_fibers() {
  constexpr size_t kStackBytes = 65536;
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = std::malloc(kStackBytes);
  fiber.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber, fiber_main, 0);
  for (int i = 0; i < kTimes; i++) {
    switches();
    outside_work();
  }
}

void run_marks() {
  for (int i = 0; i < kTimes; i++) {
    outside_work();
    SHADOWPROF_BEGIN();
    inside_marks();
    SHADOWPROF_END();
    outside_work();
  }
}

}  // namespace

int main() {
  run_throws();
  run_jumps();
  run_threads();
  run_handlers(false);
  run_handlers(true);
  run_fibers();
  run_marks();
  std::puts("done");
}
