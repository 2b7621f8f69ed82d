// SPDX-License-Identifier: MIT
//
// A very small code generator for the guests whose code changes. Every generated function takes
// and returns an int and has a twin in C, jit_expected(), so that each call is checked where it
// happens: stale code shows at once and by name.
#pragma once

#include <cpuid.h>
#include <sys/mman.h>

#include "guest.h"

typedef int (*JitFunction)(int);

enum { kPage = 4096, kJitShapes = 5, kJitMaxBytes = 32 };

static inline unsigned char* jit_put32(unsigned char* at, uint32_t value) {
  memcpy(at, &value, sizeof(value));
  return at + sizeof(value);
}

static inline unsigned char* jit_put(unsigned char* at, const char* bytes, size_t size) {
  memcpy(at, bytes, size);
  return at + size;
}
#define JIT_PUT(at, bytes) jit_put(at, bytes, sizeof(bytes) - 1)

// Writes a function of the given shape with this constant in it, and returns its end.
static inline unsigned char* jit_write(unsigned char* at, int shape, uint32_t constant) {
  switch (shape) {
    case 0:
      at = jit_put32(JIT_PUT(at, "\xB8"), constant);  // mov eax, constant
      return JIT_PUT(at, "\xC3");                     // ret
    case 1:
      at = jit_put32(JIT_PUT(at, "\x8D\x87"), constant);  // lea eax, [rdi + constant]
      return JIT_PUT(at, "\xC3");                         // ret
    case 2:
      at = jit_put32(JIT_PUT(at, "\xB9"), (constant & 7) + 1);  // mov ecx, count
      at = JIT_PUT(at, "\x31\xC0");                             // xor eax, eax
      at = JIT_PUT(at, "\x01\xF8");                             // again: add eax, edi
      at = JIT_PUT(at, "\xFF\xC9");                             // dec ecx
      at = JIT_PUT(at, "\x75\xFA");                             // jnz again
      return JIT_PUT(at, "\xC3");                               // ret
    case 3:
      at = JIT_PUT(at, "\x89\xF8");                   // mov eax, edi
      at = JIT_PUT(at, "\xA8\x01");                   // test al, 1
      at = JIT_PUT(at, "\x74\x06");                   // jz even
      at = jit_put32(JIT_PUT(at, "\x05"), constant);  // add eax, constant
      at = JIT_PUT(at, "\xC3");                       // ret
      at = jit_put32(JIT_PUT(at, "\x35"), constant);  // even: xor eax, constant
      return JIT_PUT(at, "\xC3");                     // ret
    default:
      at = jit_put32(JIT_PUT(at, "\x69\xC7"), constant);  // imul eax, edi, constant
      at = JIT_PUT(at, "\xFF\xC0");                       // inc eax
      return JIT_PUT(at, "\xC3");                         // ret
  }
}

static inline int jit_expected(int shape, uint32_t constant, int argument) {
  uint32_t x = (uint32_t)argument;
  switch (shape) {
    case 0:
      return (int)constant;
    case 1:
      return (int)(x + constant);
    case 2:
      return (int)(x * ((constant & 7) + 1));
    case 3:
      return (int)(x & 1 ? x + constant : x ^ constant);
    default:
      return (int)(x * constant + 1);
  }
}

// Through a volatile pointer, so that the compiler knows nothing about what it calls.
static inline int jit_call(const void* code, int argument) {
  JitFunction volatile function = (JitFunction)(uintptr_t)code;
  return function(argument);
}

// Calls and checks; returns the result for the checksum.
static inline uint64_t jit_check(const void* code, int shape, uint32_t constant, int argument) {
  int result = jit_call(code, argument);
  EXPECT(result == jit_expected(shape, constant, argument));
  return (uint32_t)result;
}

static inline unsigned char* jit_map(size_t size, int protection) {
  void* memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(memory != MAP_FAILED);
  return memory;
}

// Code that was written through another address is seen for certain only after a serialising
// instruction (Intel SDM volume 3, "Handling Self- and Cross-Modifying Code").
static inline void jit_serialise(void) {
  unsigned a, b, c, d;
  __cpuid(0, a, b, c, d);
  (void)a, (void)b, (void)c, (void)d;
}
