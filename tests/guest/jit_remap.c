// SPDX-License-Identifier: MIT
//
// Different code at the same address, one after the other, by every way that memory changes
// hands: munmap and mmap, mmap over it, MADV_DONTNEED, a private file mapping.
#include "jit.h"

int main(void) {
  const int everything = PROT_READ | PROT_WRITE | PROT_EXEC;
  unsigned char* place = jit_map(4 * kPage, PROT_NONE);
  uint64_t hash = 1;

  for (int round = 0; round < 100; ++round) {
    EXPECT(munmap(place, 2 * kPage) == 0);
    unsigned char* code = mmap(place, 2 * kPage, everything,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT(code == place);
    for (int i = 0; i < 4; ++i)
      jit_write(code + i * 2000, (round + i) % kJitShapes, (uint32_t)round);
    for (int i = 0; i < 40; ++i) {
      int which = i % 4;
      hash = mix(hash,
                 jit_check(code + which * 2000, (round + which) % kJitShapes, (uint32_t)round, i));
    }
  }
  printf("unmapped and mapped %016lx\n", hash);

  for (int round = 0; round < 100; ++round) {
    unsigned char* code =
        mmap(place, kPage, everything, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(code == place);
    jit_write(code, round % kJitShapes, (uint32_t)round + 5);
    for (int i = 0; i < 30; ++i) {
      hash = mix(hash, jit_check(code, round % kJitShapes, (uint32_t)round + 5, i));
    }
  }
  printf("mapped over %016lx\n", hash);

  // The file has one function, the private copy another; MADV_DONTNEED drops the copy.
  int fd = memfd_create("original", MFD_CLOEXEC);
  unsigned char image[kPage] = {0};
  jit_write(image, 1, 4321);
  EXPECT(fd >= 0 && write(fd, image, sizeof(image)) == (ssize_t)sizeof(image));
  unsigned char* copy = mmap(place, kPage, everything, MAP_PRIVATE | MAP_FIXED, fd, 0);
  EXPECT(copy == place);
  for (int round = 0; round < 50; ++round) {
    hash = mix(hash, jit_check(copy, 1, 4321, round));
    jit_write(copy, 4, (uint32_t)round);
    hash = mix(hash, jit_check(copy, 4, (uint32_t)round, round));
    EXPECT(madvise(copy, kPage, MADV_DONTNEED) == 0);
  }
  printf("dropped copies %016lx\n", hash);

  // The same file at another of its pages.
  jit_write(image, 2, 6);
  EXPECT(write(fd, image, sizeof(image)) == (ssize_t)sizeof(image));
  for (int round = 0; round < 50; ++round) {
    off_t offset = round % 2 == 0 ? 0 : kPage;
    unsigned char* code =
        mmap(place, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, offset);
    EXPECT(code == place);
    hash =
        mix(hash, round % 2 == 0 ? jit_check(code, 1, 4321, round) : jit_check(code, 2, 6, round));
  }
  printf("pages of a file %016lx\n", hash);
  return 0;
}
