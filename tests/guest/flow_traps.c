// SPDX-License-Identifier: MIT
//
// Instructions whose purpose is a trap: ud2 and undefined opcodes (SIGILL), int3 in both encodings
// and icebp (SIGTRAP), hlt and port access (SIGSEGV), int to an unused vector. Each is run from a
// known label; the handler sees that label in rip (behind the instruction for traps) and skips on.
#include <signal.h>
#include <ucontext.h>

#include "guest.h"

static volatile uintptr_t expected_rip, resume_rip;
static volatile int seen_signal, seen_code, rip_matches;

static void handler(int number, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  seen_signal = number;
  seen_code = info->si_code;
  rip_matches = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] == expected_rip;
  uc->uc_mcontext.gregs[REG_RIP] = (greg_t)resume_rip;
}

struct Trap {
  const char* name;
  void (*run)(void);
  const char* at;
  const char* after;
  int is_trap;
};

// A function whose one trapping instruction stands between two labels. A trap reports the address
// behind it, a fault its own.
#define TRAP(name, bytes)                                                                       \
  extern const char at_##name[], after_##name[];                                                \
  void run_##name(void);                                                                        \
  __asm__(".text\n.p2align 4\nrun_" #name ":\n  endbr64\n  mov $7, %eax\nat_" #name ":\n" bytes \
          "\nafter_" #name ":\n  ret\n")

TRAP(ud2, "ud2");
TRAP(ud1, ".byte 0x0f, 0xb9, 0xc0");
TRAP(undefined, ".byte 0x0f, 0xff, 0xc0");
TRAP(no_long_mode, ".byte 0x06");
TRAP(bad_lock, ".byte 0xf0, 0x01, 0xd8");
TRAP(int3, "int3");
TRAP(int3_long, ".byte 0xcd, 0x03");
TRAP(icebp, ".byte 0xf1");
TRAP(hlt, "hlt");
TRAP(in_port, "in $0x80, %al");
TRAP(cli, "cli");
TRAP(int_unused, "int $0x77");
TRAP(non_canonical, "movabs $0x8000000000000000, %rax\n  mov (%rax), %rax");

#define ROW(name, is_trap) \
  { #name, run_##name, at_##name, after_##name, is_trap }
static const struct Trap kTraps[] = {
    ROW(ud2, 0),      ROW(ud1, 0),     ROW(undefined, 0), ROW(no_long_mode, 0),
    ROW(bad_lock, 0), ROW(int3, 1),    ROW(int3_long, 1), ROW(icebp, 1),
    ROW(hlt, 0),      ROW(in_port, 0), ROW(cli, 0),       ROW(int_unused, 0),
};

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  EXPECT(sigaction(SIGILL, &action, NULL) == 0);
  EXPECT(sigaction(SIGTRAP, &action, NULL) == 0);
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
  EXPECT(sigaction(SIGBUS, &action, NULL) == 0);
  for (size_t i = 0; i < sizeof(kTraps) / sizeof(kTraps[0]); ++i) {
    const struct Trap* trap = &kTraps[i];
    int matches = 0;
    for (int round = 0; round < 50; ++round) {
      expected_rip = (uintptr_t)(trap->is_trap ? trap->after : trap->at);
      resume_rip = (uintptr_t)trap->after;
      seen_signal = 0;
      trap->run();
      matches += rip_matches;
    }
    printf("%s: signal %d code %d rip right %d times\n", trap->name, seen_signal, seen_code,
           matches);
    // Hypervisors differ in where icebp reports; on one host it must be the same place every time.
    EXPECT(matches == 50 || (trap->run == run_icebp && matches == 0));
  }
  expected_rip = (uintptr_t)at_non_canonical + 10;
  resume_rip = (uintptr_t)after_non_canonical;
  run_non_canonical();
  printf("non canonical: signal %d code %d rip right %d\n", seen_signal, seen_code, rip_matches);
  return 0;
}
