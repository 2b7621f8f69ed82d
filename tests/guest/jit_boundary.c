// SPDX-License-Identifier: MIT
//
// Code that lies across two pages with different protections: one instruction half on a page that
// is only executable, half on one that is also written. Once in mapped memory, once on the stack.
#include "jit.h"

// Functions at every distance from the boundary; the second page is rewritten again and again.
static uint64_t across(unsigned char* boundary, uint64_t hash) {
  for (int back = 1; back < 12; ++back) {
    for (int version = 0; version < 20; ++version) {
      int shape = (back + version) % kJitShapes;
      uint32_t constant = (uint32_t)(back * 1000 + version);
      unsigned char image[kJitMaxBytes];
      size_t size = (size_t)(jit_write(image, shape, constant) - image);
      EXPECT(mprotect(boundary - kPage, kPage, PROT_READ | PROT_WRITE) == 0);
      memcpy(boundary - back, image, size);
      EXPECT(mprotect(boundary - kPage, kPage, PROT_READ | PROT_EXEC) == 0);
      for (int i = 0; i < 5; ++i) hash = mix(hash, jit_check(boundary - back, shape, constant, i));
    }
    // From here the first page stays as it is: mov eax, imm32 with its immediate on both pages.
    EXPECT(mprotect(boundary - kPage, kPage, PROT_READ | PROT_WRITE) == 0);
    unsigned char* entry = boundary - (back < 5 ? back : 4);
    jit_write(entry, 0, 0);
    EXPECT(mprotect(boundary - kPage, kPage, PROT_READ | PROT_EXEC) == 0);
    for (uint32_t i = 0; i < 50; ++i) {
      entry[4] = (unsigned char)i;  // the highest byte of the immediate, behind the boundary
      hash = mix(hash, jit_check(entry, 0, i << 24, 0));
    }
  }
  return hash;
}

__attribute__((noinline)) static uint64_t on_stack(void) {
  unsigned char area[6 * kPage];
  unsigned char* boundary =
      (unsigned char*)(((uintptr_t)area + 3 * kPage - 1) & ~(uintptr_t)(kPage - 1));
  EXPECT(mprotect(boundary, kPage, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
  uint64_t hash = across(boundary, 2);
  EXPECT(mprotect(boundary - kPage, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
  return hash;
}

int main(void) {
  unsigned char* memory = jit_map(2 * kPage, PROT_READ | PROT_WRITE);
  EXPECT(mprotect(memory + kPage, kPage, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
  printf("mapped %016lx\n", across(memory + kPage, 1));
  printf("stack %016lx\n", on_stack());
  // Again, deeper: other stack pages under the same addresses of code as before.
  printf("stack again %016lx\n", on_stack());
  return 0;
}
