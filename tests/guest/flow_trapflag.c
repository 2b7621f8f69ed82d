// SPDX-License-Identifier: MIT
//
// The trap flag, set by popf and by sigreturn: SIGTRAP behind every instruction, across system
// calls of all kinds, calls, string instructions and the vsyscall page, and together with NT. The
// handler writes down where it was.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "guest.h"

enum { kMost = 400 };
static volatile uintptr_t base __attribute__((used));
static char* volatile page __attribute__((used));
static int traps;
static int seen[kMost];
static volatile int set_by_handler;

static void on_trap(int number, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  (void)number;
  EXPECT(info->si_code == TRAP_TRACE || info->si_code == TRAP_BRKPT);
  const intptr_t offset = (intptr_t)((uintptr_t)uc->uc_mcontext.gregs[REG_RIP] - base);
  if (traps < kMost) seen[traps++] = offset > -4096 && offset < 4096 ? (int)offset : -9999;
}

static void on_user(int number, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  (void)number;
  (void)info;
  if (set_by_handler) uc->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

static void report(const char* what) {
  printf("%s: %d traps:", what, traps);
  for (int i = 0; i < traps; ++i) printf(" %d", seen[i]);
  puts("");
  traps = 0;
}

// The red zone is left alone.
#define SET(bits) "lea -256(%%rsp), %%rsp\n pushf\n orl $" bits ", (%%rsp)\n popf\n"
#define CLEAR "pushf\n andl $~0x4100, (%%rsp)\n popf\n lea 256(%%rsp), %%rsp\n"
#define CLOBBERS "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc"
#define MARK "77: lea 77b(%%rip), %%rax\n mov %%rax, base(%%rip)\n"

static void plain(const char* what) {
  __asm__ volatile(MARK SET("0x100")
                   "nop\n mov $3, %%ecx\n 78: dec %%ecx\n jnz 78b\n call 79f\n jmp 80f\n"
                   "79: ret\n 80:\n" CLEAR ::: CLOBBERS);
  report(what);
}

static void with_nt(void) {
  __asm__ volatile(MARK SET("0x4100") "nop\n mov %0, %%eax\n syscall\n nop\n" CLEAR ::"i"(
      SYS_getppid)
                   : CLOBBERS);
  report("nt and trap");
  __asm__ volatile(MARK SET("0x4000") "nop\n mov %0, %%eax\n syscall\n nop\n" CLEAR ::"i"(
      SYS_getppid)
                   : CLOBBERS);
  report("nt");
}

static void across_calls(void) {
  static const int kCalls[] = {SYS_getpid, SYS_sched_yield, 100000};
  for (size_t i = 0; i < sizeof(kCalls) / sizeof(kCalls[0]); ++i) {
    __asm__ volatile(MARK SET("0x100") "mov %%ebx, %%eax\n syscall\n nop\n" CLEAR ::"b"(kCalls[i])
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    report("call");
  }
  // Calls that change what is mapped and which signals are blocked.
  page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  __asm__ volatile(MARK SET("0x100")
                   "mov %[mprotect], %%eax\n mov page(%%rip), %%rdi\n mov $4096, %%esi\n"
                   "mov $3, %%edx\n syscall\n"
                   "mov %[mask], %%eax\n xor %%edi, %%edi\n xor %%esi, %%esi\n xor %%edx, %%edx\n"
                   "mov $8, %%r10d\n syscall\n nop\n" CLEAR ::[mprotect] "i"(SYS_mprotect),
                   [mask] "i"(SYS_rt_sigprocmask)
                   : CLOBBERS);
  report("watched calls");
  page[0] = 1;
}

static void across_fork(void) {
  long child;
  __asm__ volatile(MARK SET("0x100") "mov %[fork], %%eax\n syscall\n mov %%rax, %%rbx\n" CLEAR
                   "mov %%rbx, %[child]\n"
                   : [child] "=m"(child)
                   : [fork] "i"(SYS_fork)
                   : CLOBBERS);
  if (child == 0) {
    const int count = traps;
    _exit(count > 3 && count < 20 ? 7 : 8);
  }
  int status = 0;
  EXPECT(waitpid((pid_t)child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  report("fork");
}

static void by_sigreturn(void) {
  set_by_handler = 1;
  const long self = getpid();
  __asm__ volatile(MARK
                   "lea -256(%%rsp), %%rsp\n mov %[kill], %%eax\n mov %[user], %%esi\n"
                   "syscall\n nop\n nop\n" CLEAR ::[kill] "i"(SYS_kill),
                   [user] "i"(SIGUSR1), "D"(self)
                   : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
  set_by_handler = 0;
  report("sigreturn");
}

static int has_vsyscall(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  int found = 0;
  while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, "[vsyscall]") != NULL;
  if (maps) fclose(maps);
  return found;
}

static void through_vsyscall(void) {
  if (!has_vsyscall()) return;
  __asm__ volatile(MARK SET("0x100") "xor %%edi, %%edi\n mov $0xffffffffff600400, %%rax\n"
                   "call *%%rax\n nop\n" CLEAR ::: CLOBBERS);
  report("vsyscall");
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  EXPECT(sigaction(SIGTRAP, &action, NULL) == 0);
  action.sa_sigaction = on_user;
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int round = 0; round < 2; ++round) plain("plain");
  with_nt();
  across_calls();
  across_fork();
  by_sigreturn();
  through_vsyscall();
  plain("plain");
  return 0;
}
