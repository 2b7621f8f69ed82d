// SPDX-License-Identifier: MIT
//
// FS and GS bases that only the instructions of user mode can set: in the kernel's half of the
// address space, and in the last page of the program's. And null selectors of every privilege
// level, which a debugger may not set either. Signals, system calls that are watched and new
// mappings come while they are in force.
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "guest.h"

static const uint64_t kKernelHalf = 0xffff800000000000u + 0x123000;
static const uint64_t kLastPage = 0x00007ffffffff800u;
static const unsigned long kFsgsbase = 1u << 1;  // of AT_HWCAP2

static volatile int handled;

static void handler(int number) {
  (void)number;
  handled++;
}

static void check_gs(uint64_t base) {
  __asm__ volatile("wrgsbase %0" ::"r"(base));
  raise(SIGUSR1);
  void* page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(page != MAP_FAILED);
  EXPECT(munmap(page, 4096) == 0);
  uint64_t now;
  __asm__ volatile("rdgsbase %0" : "=r"(now));
  EXPECT(now == base);
}

// The C library lives on the FS base, so all is done by hand.
static void check_fs(uint64_t base) {
  uint64_t own, now;
  __asm__ volatile("rdfsbase %0" : "=r"(own));
  __asm__ volatile(
      "wrfsbase %[base]\n"
      "  mov %[getpid], %%eax\n"
      "  syscall\n"
      "  mov %[mask], %%eax\n"
      "  xor %%edi, %%edi\n"
      "  xor %%esi, %%esi\n"
      "  xor %%edx, %%edx\n"
      "  mov $8, %%r10d\n"
      "  syscall\n"
      "  rdfsbase %[now]\n"
      "  wrfsbase %[own]"
      : [now] "=&r"(now)
      : [own] "r"(own), [base] "r"(base), [getpid] "i"(SYS_getpid), [mask] "i"(SYS_rt_sigprocmask)
      : "rax", "rcx", "rdx", "rsi", "rdi", "r10", "r11", "memory");
  EXPECT(now == base);
}

static void check_selector(uint16_t selector) {
  uint16_t now;
  __asm__ volatile("mov %0, %%es" ::"r"(selector));
  raise(SIGUSR1);
  __asm__ volatile("mov %%es, %0" : "=r"(now));
  EXPECT(now == selector || now == 0);
  __asm__ volatile("mov %0, %%es" ::"r"((uint16_t)0));
}

int main(void) {
  if (!(getauxval(AT_HWCAP2) & kFsgsbase)) {
    puts("no user instructions for the bases");
    return 77;
  }
  EXPECT(signal(SIGUSR1, handler) != SIG_ERR);
  for (unsigned i = 0; i < 20; ++i) check_fs(kKernelHalf + i);
  for (unsigned i = 0; i < 20; ++i) check_gs(kKernelHalf + i);
  check_fs(kLastPage);
  check_gs(kLastPage);
  for (uint16_t selector = 0; selector < 4; ++selector) check_selector(selector);
  EXPECT(handled == 25);
  puts("kept");
  return 0;
}
