// SPDX-License-Identifier: MIT
//
// W^X by mprotect: code is written while its page is read-write and runs while it is
// read-execute. Also protections that change nothing about the code, and two pages toggled as one
// or separately.
#include "jit.h"

int main(void) {
  unsigned char* code = jit_map(2 * kPage, PROT_READ | PROT_WRITE);
  uint64_t hash = 1;
  for (int version = 0; version < 200; ++version) {
    int shape = version % kJitShapes;
    uint32_t constant = (uint32_t)version * 123457u;
    EXPECT(mprotect(code, kPage, PROT_READ | PROT_WRITE) == 0);
    jit_write(code + 16, shape, constant);
    EXPECT(mprotect(code, kPage, PROT_READ | PROT_EXEC) == 0);
    int calls = version % 20 == 0 ? 1000 : 5;
    for (int i = 0; i < calls; ++i) hash = mix(hash, jit_check(code + 16, shape, constant, i));
  }
  printf("toggled %016lx\n", hash);

  // Away and back without a write: the code must still run.
  EXPECT(mprotect(code, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
  jit_write(code, 4, 99);
  jit_write(code + kPage, 3, 98);
  for (int i = 0; i < 100; ++i) {
    EXPECT(mprotect(code, 2 * kPage, PROT_NONE) == 0);
    EXPECT(mprotect(code, 2 * kPage,
                    i % 2 == 0 ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    hash = mix(hash, jit_check(code, 4, 99, i));
    hash = mix(hash, jit_check(code + kPage, 3, 98, i));
  }
  printf("away and back %016lx\n", hash);

  // One page is rewritten while the other keeps running.
  EXPECT(mprotect(code, 2 * kPage, PROT_READ | PROT_EXEC) == 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT(mprotect(code + kPage, kPage, PROT_READ | PROT_WRITE) == 0);
    hash = mix(hash, jit_check(code, 4, 99, i));
    jit_write(code + kPage, i % kJitShapes, (uint32_t)i);
    EXPECT(mprotect(code + kPage, kPage, PROT_READ | PROT_EXEC) == 0);
    hash = mix(hash, jit_check(code + kPage, i % kJitShapes, (uint32_t)i, i));
  }
  printf("separately %016lx\n", hash);
  return 0;
}
