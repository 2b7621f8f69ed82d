// SPDX-License-Identifier: MIT
//
// Code that ceases to be executable under its callers: the second page of a function is unmapped,
// made unreadable, or made not executable, after the function has run. The call must fault where
// the hardware would, with the right address, and a handler jumps out of it.
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "jit.h"

static sigjmp_buf escape;
static unsigned char* boundary;
static volatile long fault_offset, rip_offset;
static volatile int fault_code, fault_signal;

static void handler(int number, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  fault_signal = number;
  fault_code = info->si_code;
  fault_offset = (unsigned char*)info->si_addr - boundary;
  rip_offset = (long)uc->uc_mcontext.gregs[REG_RIP] - (long)(uintptr_t)boundary;
  siglongjmp(escape, 1);
}

// Returns 1 if the call came back, 0 if it faulted.
static int try_call(const void* code, int argument, volatile int* result) {
  if (sigsetjmp(escape, 1) != 0) return 0;
  *result = jit_call(code, argument);
  return 1;
}

// Eight two-byte increments, then ret: with `first` of them before the boundary.
static unsigned char* write_function(int first) {
  unsigned char* entry = boundary - 2 * first;
  unsigned char* at = JIT_PUT(entry - 2, "\x89\xF8");        // mov eax, edi
  for (int i = 0; i < 8; ++i) at = JIT_PUT(at, "\xFF\xC0");  // inc eax
  JIT_PUT(at, "\xC3");                                       // ret
  return entry - 2;
}

static void take_away(int how) {
  if (how == 0) EXPECT(munmap(boundary, kPage) == 0);
  if (how == 1) EXPECT(mprotect(boundary, kPage, PROT_NONE) == 0);
  if (how == 2) EXPECT(mprotect(boundary, kPage, PROT_READ | PROT_WRITE) == 0);
}

static void give_back(void) {
  void* page = mmap(boundary, kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EXPECT(page == boundary);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
  EXPECT(sigaction(SIGBUS, &action, NULL) == 0);
  unsigned char* memory = jit_map(3 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  boundary = memory + kPage;
  static const char* const kWays[] = {"unmapped", "unreadable", "not executable"};
  volatile int result = 0;

  for (int how = 0; how < 3; ++how) {
    int faults = 0;
    uint64_t hash = 1;
    for (int round = 0; round < 40; ++round) {
      unsigned char* entry = write_function(round % 8);
      for (int i = 0; i < 20; ++i) {
        EXPECT(try_call(entry, i, &result) && result == i + 8);
      }
      take_away(how);
      for (int i = 0; i < 3; ++i) {
        EXPECT(!try_call(entry, i, &result));
        EXPECT(fault_signal == SIGSEGV && fault_offset == 0 && rip_offset == 0);
        EXPECT(fault_code == (how == 0 ? SEGV_MAPERR : SEGV_ACCERR));
        ++faults;
      }
      give_back();
      entry = write_function((round + 3) % 8);
      EXPECT(try_call(entry, 1, &result) && result == 9);
      hash = mix(hash, (uint64_t)result);
    }
    printf("%s: %d faults at the boundary, %016lx\n", kWays[how], faults, hash);
  }

  // An instruction that itself lies across the boundary: rip is its start, the fault address is
  // the page that is missing.
  unsigned char* entry = boundary - 3;
  for (int how = 0; how < 3; ++how) {
    jit_write(entry, 0, 0x01020304);
    EXPECT(try_call(entry, 0, &result) && result == 0x01020304);
    take_away(how);
    EXPECT(!try_call(entry, 0, &result));
    EXPECT(fault_signal == SIGSEGV && fault_offset == 0 && rip_offset == -3);
    give_back();
  }
  printf("half an instruction: three faults\n");

  // Calls into nothing: an unmapped page, the null page, a file mapping beyond the file's end.
  EXPECT(munmap(memory + 2 * kPage, kPage) == 0);
  EXPECT(!try_call(memory + 2 * kPage + 5, 0, &result));
  EXPECT(fault_signal == SIGSEGV && fault_offset == kPage + 5 && rip_offset == kPage + 5);
  EXPECT(!try_call((void*)16, 0, &result));
  EXPECT(fault_signal == SIGSEGV && fault_code == SEGV_MAPERR);
  int fd = memfd_create("short", MFD_CLOEXEC);
  EXPECT(fd >= 0 && ftruncate(fd, kPage) == 0);
  EXPECT(mmap(boundary, kPage, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0) == boundary);
  unsigned char image[kJitMaxBytes];
  ssize_t size = jit_write(image, 1, 50) - image;
  for (int round = 0; round < 20; ++round) {
    EXPECT(pwrite(fd, image, (size_t)size, 8) == size);
    jit_serialise();
    EXPECT(try_call(boundary + 8, round, &result) && result == round + 50);
    EXPECT(ftruncate(fd, 0) == 0);
    EXPECT(!try_call(boundary + 8, round, &result));
    EXPECT(fault_signal == SIGBUS && fault_code == BUS_ADRERR && fault_offset == 8);
    EXPECT(ftruncate(fd, kPage) == 0);
  }
  printf("nothing there: the right signals\n");
  return 0;
}
