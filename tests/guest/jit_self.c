// SPDX-License-Identifier: MIT
//
// Code that modifies what it is about to execute: the processor must run the new bytes even when
// they follow the store directly, in the same straight line without a branch between.
#include "jit.h"

static unsigned char* code;

// mov [rip -> immediate of the next instruction], edi; mov eax, imm32; ret
static void next_instruction(void) {
  unsigned char* at = code;
  at = jit_put32(JIT_PUT(at, "\x89\x3D"), 1);   // mov [rip + 1], edi
  at = jit_put32(JIT_PUT(at, "\xB8"), 0xdead);  // mov eax, 0xdead
  JIT_PUT(at, "\xC3");                          // ret
  uint64_t hash = 1;
  for (int i = 0; i < 300; ++i) {
    EXPECT(jit_call(code, i * 3) == i * 3);
    hash = mix(hash, (uint64_t)i);
  }
  printf("next instruction %016lx\n", hash);
}

// A loop whose body counts up its own immediate.
static void own_immediate(void) {
  unsigned char* at = code;
  at = JIT_PUT(at, "\x31\xC0");                      // xor eax, eax
  at = JIT_PUT(at, "\x83\x05\x01\x00\x00\x00\x01");  // again: add dword [rip + 1], 1
  at = jit_put32(JIT_PUT(at, "\xBA"), 0);            // mov edx, 0
  at = JIT_PUT(at, "\x01\xD0");                      // add eax, edx
  at = JIT_PUT(at, "\xFF\xCF");                      // dec edi
  at = JIT_PUT(at, "\x75\xEE");                      // jnz again
  JIT_PUT(at, "\xC3");                               // ret
  EXPECT(jit_call(code, 100) == 5050);               // 1 + 2 + ... + 100
  EXPECT(jit_call(code, 10) == 1055);                // 101 + ... + 110
  printf("own immediate: right sums\n");
}

// The opcode of the next instruction changes between add and sub.
static void next_opcode(void) {
  unsigned char* at = code;
  at = JIT_PUT(at, "\x89\xF8");                      // mov eax, edi
  at = JIT_PUT(at, "\x80\x35\x00\x00\x00\x00\x28");  // xor byte [rip + 0], 0x28
  at = JIT_PUT(at, "\x05\x0A\x00\x00\x00");          // add eax, 10; with 0x28 flipped: sub eax, 10
  JIT_PUT(at, "\xC3");                               // ret
  for (int i = 0; i < 200; ++i) EXPECT(jit_call(code, 50) == (i % 2 == 0 ? 40 : 60));
  printf("next opcode: add and sub in turns\n");
}

// A string store that fills the rest of its own block with nops, leaving only the ret.
static void string_store(void) {
  for (int count = 0; count <= 8; count += 2) {
    unsigned char* at = code;
    at = JIT_PUT(at, "\x89\xF9");                              // mov ecx, edi
    at = JIT_PUT(at, "\x48\x8D\x3D\x07\x00\x00\x00");          // lea rdi, [rip -> counts]
    at = JIT_PUT(at, "\x31\xD2");                              // xor edx, edx
    at = JIT_PUT(at, "\xB0\x90");                              // mov al, 0x90
    at = JIT_PUT(at, "\xF3\xAA\x90");                          // rep stosb; nop
    for (int i = 0; i < 4; ++i) at = JIT_PUT(at, "\xFF\xC2");  // counts: inc edx, four times
    at = JIT_PUT(at, "\x89\xD0");                              // mov eax, edx
    JIT_PUT(at, "\xC3");                                       // ret
    EXPECT(jit_call(code, count) == (8 - count) / 2);
  }
  printf("string store: what was overwritten did not run\n");
}

// The store rewrites the instruction *before* itself, which runs in the next round only.
static void behind(void) {
  unsigned char* at = code;
  at = jit_put32(JIT_PUT(at, "\xB8"), 0);                  // mov eax, 0
  at = jit_put32(JIT_PUT(at, "\x89\x3D"), (uint32_t)-10);  // mov [rip - 10], edi
  JIT_PUT(at, "\xC3");                                     // ret
  int previous = 0;
  for (int i = 1; i < 300; ++i) {
    EXPECT(jit_call(code, i) == previous);
    previous = i;
  }
  printf("instruction behind: one round late\n");
}

// A call that overwrites the caller's code just behind the call.
static void return_point(void) {
  unsigned char* at = code;
  at = JIT_PUT(at, "\xE8\x06\x00\x00\x00");     // call callee
  at = jit_put32(JIT_PUT(at, "\xB8"), 0xdead);  // mov eax, 0xdead
  at = JIT_PUT(at, "\xC3");                     // ret
  at = JIT_PUT(at, "\x48\x8B\x04\x24");         // callee: mov rax, [rsp]
  at = JIT_PUT(at, "\x89\x78\x01");             // mov [rax + 1], edi
  JIT_PUT(at, "\xC3");                          // ret
  for (int i = 0; i < 300; ++i) EXPECT(jit_call(code, i * 7) == i * 7);
  printf("return point: rewritten by the callee\n");
}

int main(void) {
  code = jit_map(kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  next_instruction();
  own_immediate();
  next_opcode();
  string_store();
  behind();
  return_point();
  return 0;
}
