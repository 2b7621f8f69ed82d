// SPDX-License-Identifier: MIT
//
// Writes to each page of 256 MB, again and again, until it is killed: what a replica shares with it
// does not stay shared.
#include <stdlib.h>

int main(void) {
  enum { kPage = 4096 };
  const size_t pages = (size_t)256 << 20 >> 12;
  volatile char* memory = malloc(pages * kPage);
  if (!memory) return 2;
  for (char round = 1;; round++) {
    for (size_t i = 0; i < pages; i++) memory[i * kPage] = round;
  }
}
