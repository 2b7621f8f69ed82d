// SPDX-License-Identifier: MIT
//
// Code that moves: mremap takes pages with hot code to another address, other code takes the old
// address, and the moved code must run where it is now. Growing in place, shrinking, swapping. A
// second mapping of shared code.
#include <setjmp.h>
#include <signal.h>

#include "jit.h"

static sigjmp_buf out;

static void on_fault(int number) {
  (void)number;
  siglongjmp(out, 1);
}

// More is to be moved than there is. Where it was to go is unmapped all the same, by many kernels.
static void move_in_vain(void) {
  const int everything = PROT_READ | PROT_WRITE | PROT_EXEC;
  unsigned char* from = jit_map(2 * kPage, everything);
  unsigned char* to = jit_map(3 * kPage, everything);
  EXPECT(munmap(from + kPage, kPage) == 0);
  EXPECT(mprotect(to, 3 * kPage, PROT_READ | PROT_WRITE) == 0);
  jit_write(to, 1, 5);
  EXPECT(mprotect(to, 3 * kPage, PROT_READ | PROT_EXEC) == 0);
  for (int i = 0; i < 10; i++) (void)jit_check(to, 1, 5, i);
  signal(SIGSEGV, on_fault);
  const int move = MREMAP_MAYMOVE | MREMAP_FIXED;
  EXPECT(mremap(from, 2 * kPage, 3 * kPage, move, to) == MAP_FAILED && errno == EFAULT);
  const int faults = sigsetjmp(out, 1);
  if (faults == 0) (void)jit_check(to, 1, 5, 10);
  printf("moved in vain: %s\n", faults ? "nothing is there" : "it is there still");
}

int main(void) {
  const int everything = PROT_READ | PROT_WRITE | PROT_EXEC;
  unsigned char* a = jit_map(kPage, everything);
  unsigned char* b = jit_map(kPage, everything);
  unsigned char* spare = jit_map(kPage, PROT_NONE);
  jit_write(a, 1, 100);
  jit_write(b, 4, 200);
  uint64_t hash = 1;
  // a and b change places through spare; each address runs the other's code in the next round.
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 20; ++i) {
      hash = mix(hash, round % 2 == 0 ? jit_check(a, 1, 100, i) : jit_check(a, 4, 200, i));
      hash = mix(hash, round % 2 == 0 ? jit_check(b, 4, 200, i) : jit_check(b, 1, 100, i));
    }
    const int move = MREMAP_MAYMOVE | MREMAP_FIXED;
    EXPECT(mremap(a, kPage, kPage, move, spare) == spare);
    EXPECT(mremap(b, kPage, kPage, move, a) == a);
    EXPECT(mremap(spare, kPage, kPage, move, b) == b);
  }
  printf("changed places %016lx\n", hash);

  // To a new place each time; the old one is filled with something else at once.
  unsigned char* code = jit_map(kPage, everything);
  jit_write(code + 100, 3, 77);
  for (int round = 0; round < 50; ++round) {
    hash = mix(hash, jit_check(code + 100, 3, 77, round));
    unsigned char* next = jit_map(kPage, PROT_NONE);
    EXPECT(mremap(code, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, next) == next);
    unsigned char* filler =
        mmap(code, kPage, everything, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(filler == code);
    jit_write(filler + 100, 0, (uint32_t)round);
    hash = mix(hash, jit_check(filler + 100, 0, (uint32_t)round, 0));
    hash = mix(hash, jit_check(next + 100, 3, 77, round));
    EXPECT(munmap(filler, kPage) == 0);
    code = next;
  }
  printf("moved on %016lx\n", hash);

  // Grown and shrunk: what is cut off goes, and comes back empty (zeros are add [rax], al).
  unsigned char* area = jit_map(4 * kPage, everything);
  for (int round = 0; round < 50; ++round) {
    jit_write(area + 3 * kPage - 3, 2, (uint32_t)round);
    hash = mix(hash, jit_check(area + 3 * kPage - 3, 2, (uint32_t)round, round));
    EXPECT(mremap(area, 4 * kPage, 2 * kPage, 0) == area);
    unsigned char* grown = mremap(area, 2 * kPage, 4 * kPage, MREMAP_MAYMOVE);
    EXPECT(grown != MAP_FAILED);
    area = grown;
    EXPECT(area[3 * kPage - 3] == 0 && area[3 * kPage] == 0);
  }
  printf("grown and shrunk %016lx\n", hash);

  // No bytes of a shared mapping: all of it comes a second time (mremap(2)).
  unsigned char* shared = mmap(NULL, kPage, everything, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  for (int round = 0; round < 20; ++round) {
    jit_write(shared, 1, (uint32_t)round);
    unsigned char* second = mremap(shared, 0, kPage, MREMAP_MAYMOVE);
    EXPECT(second != MAP_FAILED && second != shared);
    for (int i = 0; i < 20; ++i) hash = mix(hash, jit_check(second, 1, (uint32_t)round, i));
    EXPECT(munmap(second, kPage) == 0);
  }
  printf("shared %016lx\n", hash);
  move_in_vain();
  return 0;
}
