// SPDX-License-Identifier: MIT
//
// A far call to 32-bit code, which works and returns, and what signals say of the stack segment
// before and after it.
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "guest.h"

enum { kSavedStack = 0x100, kTarget = 0x110, kOther = 0x200, kPageBytes = 4096 };
static volatile unsigned stack_segment;

static void handler(int number, siginfo_t* info, void* context) {
  const ucontext_t* uc = context;
  (void)number;
  (void)info;
  stack_segment = (unsigned)((uint64_t)uc->uc_mcontext.gregs[REG_CSGSFS] >> 48);
}

static unsigned char* put(unsigned char* at, const void* bytes, size_t size) {
  memcpy(at, bytes, size);
  return at + size;
}

static unsigned char* put_address(unsigned char* at, uintptr_t address) {
  const uint32_t low = (uint32_t)address;
  return put(at, &low, sizeof low);
}

// 64-bit code in the low page, called with ecx: a stack of its own, and the far call.
static void write_code(unsigned char* page) {
  unsigned char* at = page;
  at = put_address(put(at, "\x48\x89\x24\x25", 4),
                   (uintptr_t)page + kSavedStack);                     // mov %rsp, saved
  at = put_address(put(at, "\xbc", 1), (uintptr_t)page + kPageBytes);  // mov $end, %esp
  at = put_address(put(at, "\xff\x1c\x25", 3), (uintptr_t)page + kTarget);          // lcall *target
  at = put_address(put(at, "\x48\x8b\x24\x25", 4),
                   (uintptr_t)page + kSavedStack);  // mov saved, %rsp
  put(at, "\xc3", 1);                                                               // ret
  const uint16_t user32 = 0x23;
  put(put_address(page + kTarget, (uintptr_t)page + kOther), &user32, sizeof user32);
  // lea 7(%ecx,%ecx,4), %eax; dec %ecx, which is a REX prefix in 64-bit code; add %ecx, %eax; lret
  put(page + kOther, "\x8d\x44\x89\x07\x49\x01\xc8\xcb", 8);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  unsigned char* page = mmap(NULL, kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  EXPECT(page != MAP_FAILED);
  write_code(page);
  for (unsigned i = 0; i < 5; ++i) {
    raise(SIGUSR1);
    uint32_t result;
    __asm__ volatile("lea -256(%%rsp), %%rsp\n call *%2\n lea 256(%%rsp), %%rsp"
                     : "=a"(result)
                     : "c"(i * 11), "r"(page)
                     : "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
                       "r14", "r15", "memory", "cc");
    printf("%u, stack segment %#x\n", result, stack_segment);
  }
  return 0;
}
