// SPDX-License-Identifier: MIT
//
// Entries that decoders do not expect: the same function at every address of a cache line, and
// jumps into the middle of instructions, where the same bytes mean something else.
#include "jit.h"

int main(void) {
  unsigned char* code = jit_map(4 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  uint64_t hash = 1;
  for (int at = 0; at < 64; ++at) {
    int shape = at % kJitShapes;
    unsigned char* entry = code + at * 129 + 1;
    jit_write(entry, shape, (uint32_t)at * 11);
    for (int i = 0; i < 20; ++i) hash = mix(hash, jit_check(entry, shape, (uint32_t)at * 11, i));
  }
  printf("every address %016lx\n", hash);

  // mov eax, imm32 whose immediate is itself code: entered one byte later, it is that code.
  memset(code, 0x90, kPage);
  unsigned char* at = code;
  at = JIT_PUT(at, "\xB8\x8D\x47\x05\xC3");  // mov eax, 0xc305478d
  JIT_PUT(at, "\xC3");                       // ret; from + 1: lea eax, [rdi + 5]; ret
  for (int i = 0; i < 200; ++i) {
    EXPECT((uint32_t)jit_call(code, i) == 0xc305478d);
    EXPECT(jit_call(code + 1, i) == i + 5);
    hash = mix(hash, (uint64_t)i);
  }
  printf("inside an instruction %016lx\n", hash);

  // A slide of two-byte nops entered at every byte: all entries end in the same function.
  unsigned char* slide = code + kPage - 40;  // over a page boundary
  at = slide;
  for (int i = 0; i < 30; ++i) at = JIT_PUT(at, "\x66\x90");  // two-byte nop; from + 1: nop
  at = JIT_PUT(at, "\x89\xF8");                               // mov eax, edi
  JIT_PUT(at, "\xC3");                                        // ret
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 60; ++i) {
      EXPECT(jit_call(slide + i, i * 3) == i * 3);
      hash = mix(hash, (uint64_t)jit_call(slide + i, round));
    }
  }
  printf("slide %016lx\n", hash);

  // A jump backwards into the middle of the instruction that it just executed.
  at = code;
  at = JIT_PUT(at, "\x31\xC0");              // xor eax, eax
  at = JIT_PUT(at, "\x05\x83\xC0\x07\xC3");  // add eax, 0xc307c083; from + 1: add eax, 7; ret
  JIT_PUT(at, "\xEB\xFA");                   // jmp into it
  for (int i = 0; i < 200; ++i) EXPECT((uint32_t)jit_call(code, i) == 0xc307c083u + 7);
  printf("jump into the last instruction: right result\n");
  return 0;
}
