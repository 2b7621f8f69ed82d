// SPDX-License-Identifier: MIT
//
// Code that cannot be written is overwritten through /proc/self/mem. What leads to it stays as it
// was, and the new code looks at flags that the old one had overwritten unread.
#include <fcntl.h>

#include "jit.h"

enum { kTarget = 64, kCalls = 100 };

int main(void) {
  unsigned char* code = jit_map(kPage, PROT_READ | PROT_WRITE);
  unsigned char* at = JIT_PUT(code, "\x31\xC0\x85\xFF\x74");  // xor eax, eax; test edi, edi; jz
  *at++ = kTarget - 6;
  JIT_PUT(at, "\x89\xF8\xC3");                         // mov eax, edi; ret
  JIT_PUT(code + kTarget, "\x01\xF8\x83\xC0\x01\xC3");  // add eax, edi; add eax, 1; ret
  EXPECT(mprotect(code, kPage, PROT_READ | PROT_EXEC) == 0);
  int sum = 0;
  for (int i = 0; i < kCalls; i++) sum += jit_call(code, i % 2);
  printf("before: %d\n", sum);

  const int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  EXPECT(file >= 0);
  static const char kSetsBy[] = "\x0F\x94\xC0\x83\xC0\x10\xC3";  // sete al; add eax, 16; ret
  EXPECT(pwrite(file, kSetsBy, 7, (off_t)(uintptr_t)(code + kTarget)) == 7);
  jit_serialise();
  for (int i = 0; i < kCalls; i++) EXPECT(jit_call(code, 0) == 17);
  printf("after: %d\n", jit_call(code, 0));
  return 0;
}
