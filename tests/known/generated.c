// SPDX-License-Identifier: MIT
//
// A function that the program writes into memory and calls, 6 instructions with its return, and
// that is written anew four times in the run, with 2 more instructions each time. Prints how many
// instructions of it were executed.
//
// usage: generated ROUNDS
#include <string.h>
#include <sys/mman.h>

#include "known.h"

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 100000);
  unsigned char *code =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 1;
  uint64_t instructions = 0, sum = 0;
  for (unsigned version = 0; version < 5; version++) {
    unsigned char *p = code;
    static const unsigned char body[] = {0x48, 0x8d, 0x47, 0x01};  // lea 1(%rdi), %rax
    memcpy(p, body, sizeof body);
    p += sizeof body;
    for (unsigned i = 0; i < 4 + 2 * version; i++) {  // add $3, %rax
      static const unsigned char add[] = {0x48, 0x83, 0xc0, 0x03};
      memcpy(p, add, sizeof add);
      p += sizeof add;
    }
    *p = 0xc3;
    uint64_t (*function)(uint64_t) = (uint64_t(*)(uint64_t))code;
    for (uint64_t i = 0; i < rounds; i++) sum += function(i);
    instructions += rounds * (6 + 2 * version);
  }
  printf("{\"generated\": %llu, \"calls_of_it\": %llu, \"sum\": %llu}\n",
         (unsigned long long)instructions, (unsigned long long)rounds * 5,
         (unsigned long long)sum);
  return 0;
}
