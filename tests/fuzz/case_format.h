// SPDX-License-Identifier: MIT
//
// What the generator of cases and the runner agree on: the address space of a case and the file
// that holds many of them. The areas are at fixed addresses, so that a case is the same everywhere.
//
//   near code   within reach of the translator's code cache, if the program is a small static one
//   far code    out of reach: rip-relative operands cannot be kept as they are
//   data        low, so that an absolute 32-bit displacement reaches it
//   local data  behind each code area, for rip-relative operands
#ifndef SHADOWPROF_FUZZ_CASE_FORMAT_H
#define SHADOWPROF_FUZZ_CASE_FORMAT_H

#include <stdint.h>

#define FUZZ_MAGIC 0x31657361437a7a46ull
#define FUZZ_NEAR_CODE 0x20000000ull
#define FUZZ_FAR_CODE 0x510000000000ull
#define FUZZ_CODE_AREA 0x4000ull
#define FUZZ_LOCAL_DATA 0x10000ull /* from the code area's start */
#define FUZZ_LOCAL_BYTES 0x1000ull
#define FUZZ_DATA 0x30000000ull
#define FUZZ_DATA_BYTES 0x2000ull
#define FUZZ_STACK 0x31000000ull
#define FUZZ_STACK_BYTES 0x4000ull
#define FUZZ_CODE_BYTES 4096

/* Flags that a case may begin with: CF PF AF ZF SF DF OF, and the two that are always set. */
#define FUZZ_FLAGS 0xcd5u

struct FuzzCase {
  uint64_t seed;         /* also of the contents of memory and vector registers */
  uint64_t code_address; /* where the code begins */
  uint64_t gpr[16];      /* encoding order; [4] is the stack pointer */
  uint32_t flags;
  uint32_t mxcsr;
  uint32_t writable; /* the code area stays writable while it is executed */
  uint32_t code_bytes;
  uint32_t exit_field; /* offset of 8 bytes in the code: the runner puts its own address there */
  uint32_t reserved;
  uint8_t code[FUZZ_CODE_BYTES];
};

#endif
