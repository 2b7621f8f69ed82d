// SPDX-License-Identifier: MIT
//
// Every kind of fault with its si_code and address: SIGSEGV for missing, protected, executed and
// non-canonical addresses; SIGBUS behind the end of a mapped file; SIGFPE from integers and from
// unmasked x87 and SSE exceptions; a jump to an unmapped address.
#include <setjmp.h>
#include <sys/mman.h>

#include "signals.h"

static sigjmp_buf landing;
static volatile int seen_signal, seen_code;
static void* volatile seen_address;
static volatile greg_t seen_rip;

static void handler(int number, siginfo_t* info, void* context) {
  seen_signal = number;
  seen_code = info->si_code;
  seen_address = info->si_addr;
  seen_rip = ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  siglongjmp(landing, 1);
}

static char* page;
static void report(const char* name, const void* expected) {
  printf("%s: signal %d code %d address %s", name, seen_signal, seen_code,
         seen_address == expected ? "right" : "other");
  printf(" rip is address %d\n", (void*)seen_rip == seen_address);
}

#define FAULT(name, expected, action)                   \
  do {                                                  \
    for (volatile int round = 0; round < 20; ++round) { \
      seen_signal = seen_code = 0;                      \
      if (sigsetjmp(landing, 1) == 0) {                 \
        action;                                         \
        dprintf(1, "no fault\n");                       \
      }                                                 \
    }                                                   \
    report(name, expected);                             \
  } while (0)

static void read_file_end(void) {
  FILE* file = tmpfile();
  EXPECT(file != NULL && ftruncate(fileno(file), 8192) == 0);
  char* mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  EXPECT(mapped != MAP_FAILED);
  mapped[5000] = 1;
  EXPECT(ftruncate(fileno(file), 4096) == 0);
  FAULT("read behind a file's end", mapped + 5000, (void)*(volatile char*)(mapped + 5000));
  FAULT("write behind a file's end", mapped + 4097, *(volatile char*)(mapped + 4097) = 1);
  munmap(mapped, 8192);
  fclose(file);
}

int main(void) {
  install(SIGSEGV, handler, 0);
  install(SIGBUS, handler, 0);
  install(SIGFPE, handler, 0);
  install(SIGILL, handler, 0);
  page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(page != MAP_FAILED);
  memset(page, 0xc3, 3 * 4096);  // ret
  EXPECT(mprotect(page, 4096, PROT_NONE) == 0);
  EXPECT(mprotect(page + 4096, 4096, PROT_READ) == 0);
  EXPECT(munmap(page + 8192, 4096) == 0);

  FAULT("read null", (void*)0, (void)*(volatile char*)(uintptr_t)seen_signal);
  FAULT("read nothing", page + 8200, (void)*(volatile char*)(page + 8200));
  FAULT("read forbidden", page + 9, (void)*(volatile char*)(page + 9));
  FAULT("write read-only", page + 4105, *(volatile char*)(page + 4105) = 1);
  FAULT("across a page", page + 8192, (void)*(volatile uint64_t*)(page + 8188));
  FAULT("execute data", page + 4096, ((void (*)(void))(page + 4096))());
  FAULT("execute nothing", page + 8192, ((void (*)(void))(page + 8192))());
  FAULT("execute null", (void*)0, ((void (*)(void))(uintptr_t)seen_signal)());
  FAULT("non-canonical", (void*)0,
        __asm__ volatile("movabs $0x1234567812345678, %%rax\n mov (%%rax), %%rax" ::
                             : "rax"));
  FAULT("jump non-canonical", (void*)0,
        __asm__ volatile("movabs $0x1234567812345678, %%rax\n jmp *%%rax" ::
                             : "rax"));
  FAULT("divide by zero", (void*)seen_rip,
        __asm__ volatile("xor %%ecx, %%ecx\n mov $1, %%eax\n cltd\n idiv %%ecx" ::
                             : "eax", "ecx", "edx"));
  FAULT("quotient too big", (void*)seen_rip,
        __asm__ volatile("mov $1, %%ecx\n mov $5, %%edx\n div %%ecx" ::
                             : "eax", "ecx", "edx"));
  const unsigned strict_mxcsr = 0x1f80 & ~0x200u, usual_mxcsr = 0x1f80;
  FAULT(
      "SSE divide by zero", (void*)seen_rip,
      __asm__ volatile(
          "ldmxcsr %0\n xorps %%xmm1, %%xmm1\n cvtsi2ss %%esp, %%xmm2\n divss %%xmm1, %%xmm2" ::"m"(
              strict_mxcsr),
          "m"(usual_mxcsr)
          : "xmm1", "xmm2"));
  __asm__ volatile("ldmxcsr %0" ::"m"(usual_mxcsr));
  const unsigned short strict_x87 = 0x37b;
  FAULT("x87 divide by zero", (void*)seen_rip,
        __asm__ volatile("fninit\n fldcw %0\n fld1\n fldz\n fdivrp\n fwait" ::"m"(strict_x87)));
  __asm__ volatile("fninit");
  read_file_end();
  return 0;
}
