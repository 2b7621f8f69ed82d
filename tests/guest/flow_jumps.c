// SPDX-License-Identifier: MIT
//
// Control that leaves by other doors: longjmp over frames, coroutines by swapcontext (each switch
// stops the program in full mode) and by a hand-written stack switch, and leaf functions that live
// in the red zone.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "guest.h"

enum { kStackBytes = 64 * 1024, kSwitches = 50000, kContextSwitches = 5000 };

static jmp_buf landing;
__attribute__((noinline)) static void jump_from(int depth, int value) {
  if (depth < 0) return;
  if (depth == 0) longjmp(landing, value);
  jump_from(depth - 1, value);
  dprintf(2, "returned from a longjmp\n");
}

static uint64_t test_longjmp(void) {
  volatile uint64_t hash = 1;
  for (volatile int i = 1; i <= 5000; ++i) {
    const int value = setjmp(landing);
    if (value == 0) jump_from(i % 40, i);
    hash = mix(hash, (uint64_t)value);
    EXPECT(value == i);
  }
  return hash;
}

static ucontext_t main_context, coroutines[2];
static uint64_t shared_hash = 1;
static char coroutine_stacks[2][kStackBytes];
static void coroutine(int number) {
  double local = number;  // callee-saved and vector state must survive the switches
  for (int i = 0; i < kContextSwitches; ++i) {
    local = local * 1.0001 + i % 7;
    uint64_t bits;
    memcpy(&bits, &local, 8);
    shared_hash = mix(shared_hash, bits + (uint64_t)number);
    swapcontext(&coroutines[number], &coroutines[(number + 1) % 2]);
  }
}

static uint64_t test_swapcontext(void) {
  for (int i = 0; i < 2; ++i) {
    getcontext(&coroutines[i]);
    coroutines[i].uc_stack.ss_sp = coroutine_stacks[i];
    coroutines[i].uc_stack.ss_size = kStackBytes;
    coroutines[i].uc_link = &main_context;
    makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
  }
  swapcontext(&main_context, &coroutines[0]);
  return shared_hash;
}

// The smallest coroutine switch: push what must survive, exchange rsp, pop, return elsewhere.
void switch_stack(void** save, void* to);
__asm__(
    ".text\n.p2align 4\nswitch_stack:\n  endbr64\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n");

static void *main_stack, *worker_stack;
static uint64_t worker_value;
static void worker(void) {
  for (uint64_t i = 0;; ++i) {
    worker_value = mix(worker_value, i);
    switch_stack(&worker_stack, main_stack);
  }
}

static uint64_t test_own_stacks(void) {
  char* stack = mmap(NULL, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(stack != MAP_FAILED);
  uint64_t* top = (uint64_t*)(stack + kStackBytes);
  *--top = 0;
  *--top = (uint64_t)(uintptr_t)&worker;
  for (int i = 0; i < 6; ++i) *--top = 0;
  worker_stack = top;
  for (int i = 0; i < kSwitches; ++i) {
    switch_stack(&main_stack, worker_stack);
    worker_value ^= (uint64_t)i << 40;
  }
  munmap(stack, kStackBytes);
  return worker_value;
}

// Sixteen values below rsp, none of them reserved: everything must leave those bytes alone.
uint64_t red_zone(uint64_t seed, uint64_t rounds);
__asm__(
    ".text\n.p2align 4\nred_zone:\n  endbr64\n"
    "  .irp slot, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\n"
    "  mov %rdi, -8*\\slot(%rsp)\n  lea \\slot(%rdi,%rdi,2), %rdi\n  .endr\n"
    "1:\n"
    "  .irp slot, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  mov -8*\\slot(%rsp), %rax\n  add %rax, -8*\\slot-8(%rsp)\n"
    "  test $1, %al\n  jz 2f\n  rolq $5, -8*\\slot(%rsp)\n  2:\n  .endr\n"
    "  mov -128(%rsp), %rax\n  xor %rax, -8(%rsp)\n"
    "  dec %rsi\n  jnz 1b\n"
    "  mov -8(%rsp), %rax\n  ret\n");

static sigjmp_buf signal_landing;
static void on_signal(int number) {
  siglongjmp(signal_landing, number);
}

int main(void) {
  printf("longjmp %016llx\n", (unsigned long long)test_longjmp());
  printf("swapcontext %016llx\n", (unsigned long long)test_swapcontext());
  printf("own stacks %016llx\n", (unsigned long long)test_own_stacks());
  printf("red zone %016llx\n", (unsigned long long)red_zone(0x1234567, 20000));
  signal(SIGUSR1, on_signal);
  volatile int caught = 0;
  for (volatile int i = 0; i < 1000; ++i) {
    if (sigsetjmp(signal_landing, 1) == 0) {
      raise(SIGUSR1);
    } else {
      ++caught;
    }
  }
  printf("siglongjmp %d\n", caught);
  return caught == 1000 ? 0 : 1;
}
