// SPDX-License-Identifier: MIT
//
// A place that branches lead to holds, before it is written, what no program could go on from: a
// call of the 32-bit kernel, a breakpoint, an undefined instruction. What an engine saw there when
// it looked ahead counts for nothing when the place is reached.
#include "jit.h"

enum { kAhead = 64, kPlaceBytes = 128 };

// Returns its argument, but for 0: then it goes on at `at` + kAhead.
static void write_branch(unsigned char* at) {
  at = JIT_PUT(at, "\x85\xFF\x74");  // test edi, edi; jz
  *at++ = kAhead - 4;
  JIT_PUT(at, "\x89\xF8\xC3");  // mov eax, edi; ret
}

int main(void) {
  static const char* const kBefore[] = {"\xCD\x80", "\xCC\xCC", "\x0F\x0B", "\xF1\xF1", "\x06\x06"};
  unsigned char* code = jit_map(kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  uint64_t hash = 1;
  for (int i = 0; i < 5; i++) {
    unsigned char* at = code + i * kPlaceBytes;
    write_branch(at);
    for (int byte = 0; byte < kAhead; byte += 2) memcpy(at + kAhead + byte, kBefore[i], 2);
    for (int argument = 1; argument < 10; argument++) EXPECT(jit_call(at, argument) == argument);
    for (int shape = 0; shape < kJitShapes; shape++) {
      jit_write(at + kAhead, shape, 4711u + (uint32_t)i);
      for (int round = 0; round < 100; round++)
        hash = mix(hash, jit_check(at, shape, 4711u + (uint32_t)i, 0));
    }
  }
  printf("ahead %016lx\n", hash);
  return 0;
}
