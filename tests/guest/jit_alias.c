// SPDX-License-Identifier: MIT
//
// The two-mapping layout of hardened JIT compilers: one memfd, mapped writable at one address and
// executable at another. The executing mapping is never writable, and no store ever names its
// addresses.
#include "jit.h"

int main(void) {
  int fd = memfd_create("code", MFD_CLOEXEC);
  EXPECT(fd >= 0);
  EXPECT(ftruncate(fd, 4 * kPage) == 0);
  unsigned char* writer = mmap(NULL, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unsigned char* runner = mmap(NULL, 4 * kPage, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  EXPECT(writer != MAP_FAILED && runner != MAP_FAILED);

  uint64_t hash = 1;
  for (int version = 0; version < 300; ++version) {
    int shape = version % kJitShapes;
    uint32_t constant = (uint32_t)version * 40503u;
    size_t at = (size_t)(version % 7) * 2000;  // some of them cross a page
    jit_write(writer + at, shape, constant);
    jit_serialise();
    int calls = version % 10 == 0 ? 500 : 3;
    for (int i = 0; i < calls; ++i) hash = mix(hash, jit_check(runner + at, shape, constant, i));
  }
  printf("two mappings %016lx\n", hash);

  // A third view that comes and goes, and the file itself written by the kernel.
  for (int version = 0; version < 60; ++version) {
    uint32_t constant = (uint32_t)version * 31u + 7;
    unsigned char image[kJitMaxBytes];
    size_t size = (size_t)(jit_write(image, 1, constant) - image);
    if (version % 2 == 0) {
      unsigned char* view = mmap(NULL, kPage, PROT_WRITE, MAP_SHARED, fd, 2 * kPage);
      EXPECT(view != MAP_FAILED);
      memcpy(view + 64, image, size);
      EXPECT(munmap(view, kPage) == 0);
    } else {
      EXPECT(pwrite(fd, image, size, 2 * kPage + 64) == (ssize_t)size);
    }
    jit_serialise();
    for (int i = 0; i < 50; ++i) {
      hash = mix(hash, jit_check(runner + 2 * kPage + 64, 1, constant, i));
    }
  }
  printf("passing views %016lx\n", hash);
  return 0;
}
