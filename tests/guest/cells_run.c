// SPDX-License-Identifier: MIT
//
// Runs every cell of the program (cells.inc) over many register states and prints one line per
// cell: its text and a checksum over all registers, flags, vector, mask and x87 state and the
// memory it could reach. A difference names the instruction that is wrong. Instruction and data
// pointers of the x87 unit are left out: they show where an engine keeps its copy of the code.
#include <cpuid.h>
#include <sys/mman.h>

#include "guest.h"

struct Registers {
  uint64_t general[16];  // in encoding order; [4], rsp, is not used
  uint64_t flags;
};

struct Vectors {
  unsigned char fxsave[512];
  unsigned char zmm[32][64];
  uint64_t masks[8];
} __attribute__((aligned(64)));

typedef void CellFunction(struct Registers*);

struct Cell {
  CellFunction* fused;
  CellFunction* isolated;
  const char* text;
  uint64_t undefined_flags;
  uint64_t feature;
};

extern const struct Cell __start_celltab[], __stop_celltab[];

// Memory that cells reach: relative to rip, and by an address that is the same in every run.
unsigned char cell_data[512] __attribute__((aligned(64), visibility("hidden")));
uint64_t cell_rax __attribute__((visibility("hidden")));
enum { kBufferBytes = 4096 };
static unsigned char* const buffer = (unsigned char*)0x100000000000;

enum VectorLevel { kSse = 0, kAvx = 1, kAvx512 = 2 };

// Runs `cell` between loading and storing all vector state: nothing of C's is in between.
void run_with_vectors(CellFunction* cell, struct Registers* registers, struct Vectors* vectors,
                      uint64_t level);
__asm__(
    ".intel_syntax noprefix\n"
    ".text\n"
    ".p2align 4\n"
    "run_with_vectors:\n"
    "  endbr64\n  push r12\n  push r13\n  push r14\n"
    "  mov r12, rdx\n  mov r13, rcx\n  mov r14, rdi\n  mov rdi, rsi\n"
    "  fxrstor64 [r12]\n"
    "  cmp r13, 1\n  jb 2f\n  ja 1f\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  vmovdqu ymm\\n, [r12+512+64*\\n]\n"
    "  .endr\n  jmp 2f\n"
    "1:\n"
    "  .irp n, "
    "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "  vmovdqu64 zmm\\n, [r12+512+64*\\n]\n"
    "  .endr\n"
    "  .irp n, 0,1,2,3,4,5,6,7\n  kmovq k\\n, [r12+2560+8*\\n]\n  .endr\n"
    "2:\n"
    "  call r14\n"
    "  fxsave64 [r12]\n"
    "  cmp r13, 1\n  jb 2f\n  ja 1f\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  vmovdqu [r12+512+64*\\n], ymm\\n\n"
    "  .endr\n  vzeroupper\n  jmp 2f\n"
    "1:\n"
    "  .irp n, "
    "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "  vmovdqu64 [r12+512+64*\\n], zmm\\n\n"
    "  .endr\n"
    "  .irp n, 0,1,2,3,4,5,6,7\n  kmovq [r12+2560+8*\\n], k\\n\n  .endr\n"
    "  vzeroupper\n"
    "2:\n"
    "  fninit\n  push 0x1f80\n  ldmxcsr [rsp]\n  pop rax\n"
    "  pop r14\n  pop r13\n  pop r12\n  ret\n"
    ".att_syntax\n");

static uint32_t cpuid_word(uint32_t leaf, uint32_t subleaf, int word) {
  uint32_t r[4] = {0, 0, 0, 0};
  if (!__get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3])) return 0;
  return r[word];
}

static uint64_t xcr0(void) {
  if (!(cpuid_word(1, 0, 2) & 1u << 27)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | (uint64_t)high << 32;
}

// What a cell needs, in the order of the F_ numbers of cells.inc.
enum Word { kAlways, k1c, k7b, k7c, k8c };  // cpuid: leaf 1 ecx, leaf 7 ebx and ecx, 80000001 ecx
static const struct Feature {
  enum Word word;
  int bit;
  enum { kAnyState, kYmm, kZmm } state;
} kFeatures[] = {
    {kAlways, 0, kAnyState}, {k1c, 28, kYmm},       // AVX
    {k7b, 5, kYmm},                                 // AVX2
    {k7b, 3, kAnyState},     {k7b, 8, kAnyState},   // BMI1, BMI2
    {k1c, 12, kYmm},                                // FMA
    {k7b, 16, kZmm},                                // AVX-512
    {k7c, 8, kAnyState},     {k7c, 9, kYmm},        // GFNI, VAES
    {k7c, 10, kYmm},                                // VPCLMULQDQ
    {k7b, 29, kAnyState},    {k1c, 25, kAnyState},  // SHA, AES
    {k1c, 1, kAnyState},     {k1c, 22, kAnyState},  // PCLMULQDQ, MOVBE
    {k8c, 5, kAnyState},     {k1c, 23, kAnyState},  // LZCNT, POPCNT
    {k1c, 20, kAnyState},    {k7c, 1, kZmm},        // SSE4.2, VBMI
    {k7b, 19, kAnyState},    {k7c, 11, kZmm},       // ADX, VNNI
    {k7c, 14, kZmm},         {k7c, 12, kZmm},       // VPOPCNTDQ, BITALG
    {k7c, 6, kZmm},          {k7b, 21, kZmm},       // VBMI2, IFMA
    {k1c, 29, kYmm},         {k8c, 6, kAnyState},   // F16C, SSE4A
    {k1c, 27, kAnyState},    {k7c, 8, kZmm},        // OSXSAVE, GFNI with zmm
    {k7c, 9, kZmm},                                 // VAES with zmm
};

static int has_feature(uint64_t number) {
  EXPECT(number < sizeof(kFeatures) / sizeof(kFeatures[0]));
  const struct Feature* feature = &kFeatures[number];
  const uint32_t words[] = {1, cpuid_word(1, 0, 2), cpuid_word(7, 0, 1), cpuid_word(7, 0, 2),
                            cpuid_word(0x80000001, 0, 2)};
  const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F DQ CD BW VL
  if (feature->state >= kYmm && (xcr0() & 6) != 6) return 0;
  if (feature->state == kZmm && ((xcr0() & 0xe0) != 0xe0 || (words[k7b] & avx512) != avx512))
    return 0;
  return words[feature->word] >> feature->bit & 1;
}

static uint64_t interesting(uint64_t* random) {
  static const uint64_t kEdges[] = {0,      1,         2,          31,         32,
                                    63,     64,        0x7f,       0x80,       0xff,
                                    0x7fff, 0x8000,    0x7fffffff, 0x80000000, 0x7fffffffffffffff,
                                    ~0ull,  1ull << 63};
  const uint64_t r = next_random(random);
  if (r & 1) return next_random(random);
  return kEdges[(r >> 8) % (sizeof(kEdges) / sizeof(kEdges[0]))];
}

// Random bits, small integers, floats and doubles of ordinary size, and special values.
static void fill_vectors(struct Vectors* vectors, uint64_t* random) {
  memset(vectors, 0, sizeof(*vectors));
  const uint16_t control = 0x37f;
  const uint32_t mxcsr = 0x1f80;
  memcpy(vectors->fxsave, &control, 2);
  memcpy(vectors->fxsave + 24, &mxcsr, 4);
  for (int n = 0; n < 32; ++n) {
    for (int i = 0; i < 8; ++i) {
      const uint64_t r = next_random(random);
      uint64_t word = next_random(random);
      const double as_double = (double)(int32_t)r / 1024.0;
      const float as_floats[2] = {(float)(int16_t)r / 16.0f, (float)(int16_t)(r >> 16) / 256.0f};
      if (n % 4 == 1) memcpy(&word, &as_double, 8);
      if (n % 4 == 2) memcpy(&word, as_floats, 8);
      if (n % 4 == 3) word = interesting(random);
      // Indices for gather and scatter: quadwords in 14 and 30, doublewords in 15 and 31.
      if (n % 16 == 14) word = r & 63;
      if (n % 16 == 15) word = (r & 63) | (r >> 8 & 63) << 32;
      memcpy(&vectors->zmm[n][8 * i], &word, 8);
    }
  }
  for (int n = 0; n < 16; ++n) memcpy(vectors->fxsave + 160 + 16 * n, vectors->zmm[n], 16);
  for (int n = 0; n < 8; ++n) vectors->masks[n] = next_random(random);
}

static uint64_t run_once(CellFunction* function, const struct Cell* cell, uint64_t seed,
                         enum VectorLevel level) {
  static struct Vectors vectors;
  struct Registers registers;
  uint64_t random = seed;
  for (int i = 0; i < 16; ++i) registers.general[i] = interesting(&random);
  // CF, PF, AF, ZF, SF and OF as they come; DF off, IF reads as set.
  registers.flags = (next_random(&random) & 0x8d5) | 0x202;
  fill_vectors(&vectors, &random);
  for (int i = 0; i < kBufferBytes; i += 8) {
    const uint64_t word = next_random(&random);
    memcpy(buffer + i, &word, 8);
    if (i < (int)sizeof(cell_data)) memcpy(cell_data + i, &word, 8);
  }

  run_with_vectors(function, &registers, &vectors, level);

  registers.general[4] = 0;
  registers.flags &= 0xcd5 & ~cell->undefined_flags;
  memset(vectors.fxsave + 6, 0, 18);    // opcode, instruction and data pointers
  memset(vectors.fxsave + 416, 0, 96);  // not written by fxsave
  uint64_t hash = mix_bytes(1, &registers, sizeof(registers));
  hash = mix_bytes(hash, &vectors, sizeof(vectors));
  hash = mix_bytes(hash, buffer, kBufferBytes);
  return mix_bytes(hash, cell_data, sizeof(cell_data));
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);  // a crash leaves the name of the last good cell
  EXPECT(mmap(buffer, kBufferBytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == buffer);
  const enum VectorLevel level = has_feature(6) ? kAvx512 : has_feature(1) ? kAvx : kSse;
  uint64_t total = 0;
  for (const struct Cell* cell = __start_celltab; cell < __stop_celltab; ++cell) {
    if (!has_feature(cell->feature)) {
      printf("%s: not on this CPU\n", cell->text);
      continue;
    }
    uint64_t fused = 0, isolated = 0;
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      fused = mix(fused, run_once(cell->fused, cell, seed, level));
      isolated = mix(isolated, run_once(cell->isolated, cell, seed, level));
    }
    EXPECT(fused == isolated);
    printf("%s: %016llx\n", cell->text, (unsigned long long)fused);
    total = mix(total, fused);
  }
  printf("all: %016llx\n", (unsigned long long)total);
  return 0;
}
