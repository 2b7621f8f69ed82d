// SPDX-License-Identifier: MIT
//
// Writes to each page of 256 MB, again and again, until it is killed: what a replica shares with it
// does not stay shared. Not by malloc, which fills it where MALLOC_PERTURB_ is set.
#include <stddef.h>
#include <sys/mman.h>

int main(void) {
  enum { kPage = 4096 };
  const size_t pages = (size_t)256 << 20 >> 12;
  void* mapped =
      mmap(NULL, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 2;
  volatile char* memory = mapped;
  for (char round = 1;; round++) {
    for (size_t i = 0; i < pages; i++) memory[i * kPage] = round;
  }
}
