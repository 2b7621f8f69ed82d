// SPDX-License-Identifier: MIT
//
// Programs that live on faults: a handler that maps the page and lets the instruction run again,
// one that mends the base register, one that emulates a load and steps over it, and a generational
// collector's write barrier by mprotect. A thousand times each.
#include <sys/mman.h>

#include "signals.h"

enum { kRounds = 1000, kPages = 64, kPage = 4096 };
static unsigned char* arena;
static volatile int faults;
static uint64_t good_value = 0x5555aaaa;

static void unprotect(int number, siginfo_t* info, void* context) {
  (void)context;
  EXPECT(number == SIGSEGV && info->si_code == SEGV_ACCERR);
  const uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(kPage - 1);
  EXPECT(page >= (uintptr_t)arena && page < (uintptr_t)arena + kPages * kPage);
  EXPECT(mprotect((void*)page, kPage, PROT_READ | PROT_WRITE) == 0);
  faults = faults + 1;
}

static void mend_base(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_R15] = (greg_t)(uintptr_t)&good_value;
  faults = faults + 1;
}

static void emulate_load(int number, siginfo_t* info, void* context) {
  (void)number;
  mcontext_t* machine = &((ucontext_t*)context)->uc_mcontext;
  machine->gregs[REG_RAX] = (greg_t)(uintptr_t)info->si_addr * 3;
  machine->gregs[REG_RIP] += 3;  // mov (%rbx), %rax
  faults = faults + 1;
}

static void store_string(int number, siginfo_t* info, void* context) {
  // rep movsb stops in the middle: rcx, rsi and rdi say how far it came.
  mcontext_t* machine = &((ucontext_t*)context)->uc_mcontext;
  EXPECT((uint64_t)machine->gregs[REG_RDI] == (uint64_t)info->si_addr);
  EXPECT(machine->gregs[REG_RCX] == 100);
  unprotect(number, info, context);
}

int main(void) {
  arena = mmap(NULL, kPages * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(arena != MAP_FAILED);

  install(SIGSEGV, unprotect, 0);
  uint64_t random = 3;
  for (int i = 0; i < kRounds; ++i) {
    EXPECT(mprotect(arena, kPages * kPage, PROT_READ) == 0);
    for (int j = 0; j < 3; ++j) arena[next_random(&random) % (kPages * kPage)] += (unsigned char)i;
  }
  printf("write barrier: %d faults %016llx\n", faults,
         (unsigned long long)mix_bytes(1, arena, kPages * kPage));

  faults = 0;
  install(SIGSEGV, mend_base, 0);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    uint64_t value;
    __asm__ volatile("mov %1, %%r15\n  mov (%%r15), %0" : "=r"(value) : "r"(i) : "r15", "memory");
    sum = mix(sum, value + i);
  }
  printf("mended base: %d faults %016llx\n", faults, (unsigned long long)sum);

  faults = 0;
  install(SIGSEGV, emulate_load, 0);
  for (uint64_t i = 0; i < kRounds; ++i) {
    uint64_t value;
    __asm__ volatile("mov (%%rbx), %%rax" : "=a"(value) : "b"(i * 4 % kPage) : "memory");
    sum = mix(sum, value);
  }
  printf("emulated load: %d faults %016llx\n", faults, (unsigned long long)sum);

  faults = 0;
  install(SIGSEGV, store_string, 0);
  static unsigned char source[400];
  memset(source, 0x42, sizeof(source));
  for (int i = 0; i < kRounds; ++i) {
    EXPECT(mprotect(arena, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
    EXPECT(mprotect(arena + kPage, kPage, PROT_READ) == 0);
    unsigned char* to = arena + kPage - 200;
    const unsigned char* from = source;
    uint64_t count = 300;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    EXPECT(count == 0 && to == arena + kPage + 100);
  }
  printf("string store: %d faults %016llx\n", faults,
         (unsigned long long)mix_bytes(1, arena, 2 * kPage));
  return 0;
}
