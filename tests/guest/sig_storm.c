// SPDX-License-Identifier: MIT
//
// A timer signal every millisecond while the program computes: the sum must not change, whatever
// instruction each signal met. Vector registers, x87 state and the red zone are in use all the
// time.
#include "signals.h"

static volatile unsigned ticks;
static void on_tick(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  // The handler spoils what it may.
  char buffer[256];
  memset(buffer, (int)ticks, sizeof(buffer));
  __asm__ volatile("pxor %%xmm0, %%xmm0\n fldpi\n fstp %%st(0)\n mov $-1, %%r15" ::"r"(buffer)
                   : "xmm0", "r15", "memory");
  ticks = ticks + 1;
}

// A leaf with live values below the stack pointer, in rcx, rdx, r8-r15, flags and xmm registers.
uint64_t spin(uint64_t seed, uint64_t rounds);
__asm__(
    ".text\n.p2align 4\nspin:\n  endbr64\n"
    "  mov %r14, -16(%rsp)\n  mov %r15, -24(%rsp)\n"
    "  mov %rsi, %rcx\n  mov %rdi, %r15\n  lea 1(%rdi), %r14\n  lea 2(%rdi), %r11\n"
    "  mov %rdi, -128(%rsp)\n  movq %rdi, %xmm1\n  mov %rdi, %rdx\n"
    "1:\n  add %r15, %r14\n  adc %r11, %r15\n  rol $7, %r11\n  xor %r14, %r11\n"
    "  movq %r15, %xmm2\n  paddq %xmm2, %xmm1\n  add %r15, -128(%rsp)\n"
    "  mov -128(%rsp), %rdx\n  sbb %rdx, %r11\n  push %rdx\n  pop %r8\n  mov %r8, -128(%rsp)\n"
    "  dec %rcx\n  jnz 1b\n"
    "  movq %xmm1, %rax\n  xor %r15, %rax\n  xor -128(%rsp), %rax\n"
    "  mov -16(%rsp), %r14\n  mov -24(%rsp), %r15\n  ret\n");

static uint64_t compute(void) {
  uint64_t hash = 1;
  double x = 1.5;
  long double y = 1.25L;
  for (int i = 0; i < 300; ++i) {
    hash = mix(hash, spin(hash, 5000));
    for (int j = 0; j < 500; ++j) {
      x = x * 1.0000001 + j;
      y = y * 1.0000003L + (long double)x;
    }
    hash = burn(hash, 2000);
    if (i % 16 == 0) {
      char* block = malloc(10000);
      EXPECT(block != NULL);
      memset(block, i, 10000);
      hash = mix_bytes(hash, block, 10000);
      free(block);
    }
  }
  hash = mix(hash, (uint64_t)(x * 1000));
  return mix(hash, (uint64_t)(y / 1e6L));
}

int main(void) {
  const uint64_t calm = compute();
  install(SIGALRM, on_tick, SA_RESTART);
  install(SIGPROF, on_tick, SA_RESTART);
  const struct itimerval every_ms = {{0, 1000}, {0, 1000}};
  EXPECT(setitimer(ITIMER_REAL, &every_ms, NULL) == 0);
  EXPECT(setitimer(ITIMER_PROF, &every_ms, NULL) == 0);
  int equal = 0, rounds = 0;
  while (rounds < 5 || (ticks < 100 && rounds < 1000)) {
    equal += compute() == calm;
    ++rounds;
  }
  const struct itimerval off = {{0, 0}, {0, 0}};
  EXPECT(setitimer(ITIMER_REAL, &off, NULL) == 0);
  EXPECT(setitimer(ITIMER_PROF, &off, NULL) == 0);
  printf("sum %016llx, all equal %d, enough ticks %d\n", (unsigned long long)calm, equal == rounds,
         ticks >= 100);
  return equal == rounds ? 0 : 1;
}
