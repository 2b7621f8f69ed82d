// SPDX-License-Identifier: MIT
//
// A page that is writable and executable at once: functions are overwritten in place, by other
// constants and by other shapes, and called between any two writes. First often enough for each
// version to get hot, then with a new version for each call.
#include "jit.h"

int main(void) {
  unsigned char* code = jit_map(kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  uint64_t hash = 1;
  for (int version = 0; version < 20; ++version) {
    jit_write(code, 0, (uint32_t)version * 77);
    for (int i = 0; i < 3000; ++i) hash = mix(hash, jit_check(code, 0, (uint32_t)version * 77, i));
  }
  printf("hot constants %016lx\n", hash);

  for (int i = 0; i < 400; ++i) {
    int shape = i % kJitShapes;
    jit_write(code, shape, (uint32_t)i * 2654435761u);
    hash = mix(hash, jit_check(code, shape, (uint32_t)i * 2654435761u, i));
  }
  printf("shapes %016lx\n", hash);

  // Only the immediate changes, by a store of four bytes, of one byte, and of sixteen.
  jit_write(code, 0, 0);
  for (uint32_t i = 0; i < 255; ++i) {
    uint32_t constant = i * 0x01010101u;
    if (i % 3 == 0) {
      jit_put32(code + 1, constant);
    } else if (i % 3 == 1) {
      for (int byte = 0; byte < 4; ++byte) code[1 + byte] = (unsigned char)i;
    } else {
      unsigned char image[16];
      memcpy(image, code, sizeof(image));
      jit_put32(image + 1, constant);
      __asm__ volatile("movups %1, %%xmm0\n\tmovups %%xmm0, %0"
                       : "=m"(*(unsigned char(*)[16])code)
                       : "m"(image)
                       : "xmm0");
    }
    hash = mix(hash, jit_check(code, 0, constant, 0));
  }
  printf("immediates %016lx\n", hash);

  // Many functions on one page; rewriting one must leave its neighbours right.
  uint32_t constants[64];
  int shapes[64];
  uint64_t random = 5;
  for (int i = 0; i < 64; ++i) {
    constants[i] = (uint32_t)i;
    shapes[i] = i % kJitShapes;
    jit_write(code + i * kJitMaxBytes, shapes[i], constants[i]);
  }
  for (int round = 0; round < 500; ++round) {
    uint64_t choice = next_random(&random);
    int victim = (int)(choice % 64);
    constants[victim] = (uint32_t)(choice >> 32);
    shapes[victim] = (int)(choice >> 8 & 0xffff) % kJitShapes;
    jit_write(code + victim * kJitMaxBytes, shapes[victim], constants[victim]);
    for (int i = 0; i < 64; i += 7) {
      int which = (victim + i) % 64;
      hash = mix(hash, jit_check(code + which * kJitMaxBytes, shapes[which], constants[which], i));
    }
  }
  printf("neighbours %016lx\n", hash);
  return 0;
}
