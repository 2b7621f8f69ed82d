// SPDX-License-Identifier: MIT
//
// Signals that the program blocks, and lets in for the time of one call: by sigsuspend, ppoll,
// pselect and epoll_pwait. The handler sees the program's registers and the mask that comes back,
// and may do what handlers do: take another signal, meet a fault, make a process, jump out.
#include <poll.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "signals.h"

// Makes the system call args[0] with args[1] to args[6], and with registers of its own: r15 to r12,
// rbx and rbp are `kMark` + 15 to 12, 3 and 5. With `trapped` it sets the trap flag meanwhile.
long call_marked(const long* args, long trapped);
extern const char behind_call[];
enum { kMark = 0x5a5a00, kTrapFlag = 0x100 };
__asm__(
    ".intel_syntax noprefix\n.text\n.p2align 4\n"
    "call_marked:\n"
    "  push rbx\n  push rbp\n  push r12\n  push r13\n  push r14\n  push r15\n  push rsi\n"
    "  mov r12, 0x5a5a0c\n  mov r13, 0x5a5a0d\n  mov r14, 0x5a5a0e\n  mov r15, 0x5a5a0f\n"
    "  mov rbx, 0x5a5a03\n  mov rbp, 0x5a5a05\n"
    "  pushfq\n  or [rsp], rsi\n"
    "  mov rax, [rdi]\n  mov rsi, [rdi+16]\n  mov rdx, [rdi+24]\n  mov r10, [rdi+32]\n"
    "  mov r8, [rdi+40]\n  mov r9, [rdi+48]\n  mov rdi, [rdi+8]\n"
    "  popfq\n"
    "  syscall\n"
    "behind_call:\n"
    "  pop rsi\n  not rsi\n  pushfq\n  and [rsp], rsi\n  popfq\n"
    "  pop r15\n  pop r14\n  pop r13\n  pop r12\n  pop rbp\n  pop rbx\n  ret\n"
    ".att_syntax\n");

static sigjmp_buf out;
static volatile int handled, nested, faults, traps;
static volatile int leaves, expected_rax = -EINTR;

static void check_registers(const ucontext_t* context) {
  const greg_t* regs = context->uc_mcontext.gregs;
  EXPECT(regs[REG_RIP] == (greg_t)behind_call);
  EXPECT(regs[REG_RAX] == expected_rax);
  EXPECT(regs[REG_R15] == kMark + 15 && regs[REG_R14] == kMark + 14);
  EXPECT(regs[REG_R13] == kMark + 13 && regs[REG_R12] == kMark + 12);
  EXPECT(regs[REG_RBX] == kMark + 3 && regs[REG_RBP] == kMark + 5);
  EXPECT(sigismember(&context->uc_sigmask, SIGUSR1) && sigismember(&context->uc_sigmask, SIGUSR2));
}

static void on_nested(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  nested++;
}

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)number;
  EXPECT(info->si_addr == NULL);
  ucontext_t* at = context;
  at->uc_mcontext.gregs[REG_RIP] += 2;  // mov eax, [rax]
  faults++;
}

static void on_trap(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  traps++;
}

static void make_process(void) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) _exit(handled == 0 ? 1 : 7);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  printf("  child %s %d\n", WIFEXITED(status) ? "exit" : "signal",
         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)info;
  sigset_t mask;
  handled++;
  check_registers(context);
  EXPECT(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
  EXPECT(sigismember(&mask, number) && !sigismember(&mask, SIGHUP));
  raise(SIGHUP);
  __asm__ volatile("xor %%eax, %%eax\n  mov (%%rax), %%eax" ::: "eax", "memory");
  make_process();
  if (leaves) siglongjmp(out, 1);
}

static void report(const char* name, long result) {
  printf("%s: %ld handled %d nested %d faults %d trapped %d\n", name, result, handled, nested,
         faults, traps != 0);
  fflush(stdout);
  handled = nested = faults = traps = 0;
}

static long wait_so(const long* args, long flags) {
  raise(SIGUSR1);
  EXPECT(handled == 0);
  if (sigsetjmp(out, 1) != 0) return 4711;
  const long result = call_marked(args, flags);
  EXPECT(handled == 1);
  return result;
}

int main(void) {
  install(SIGUSR1, on_signal, 0);
  install(SIGUSR2, on_nested, 0);
  install(SIGHUP, on_nested, 0);
  install(SIGSEGV, on_fault, 0);
  install(SIGTRAP, on_trap, 0);
  change_mask(SIG_BLOCK, SIGUSR1);
  change_mask(SIG_BLOCK, SIGUSR2);
  change_mask(SIG_BLOCK, SIGURG);
  const long none = (long)&(sigset_t){0}, bytes = 8;
  const long sets[2] = {none, bytes};
  const struct timespec second = {1, 0}, shortly = {0, 1000000};
  struct epoll_event event;
  const int epoll = epoll_create1(0);
  EXPECT(epoll >= 0);
  const struct {
    const char* name;
    long args[7];
  } waits[] = {
      {"sigsuspend", {SYS_rt_sigsuspend, none, bytes}},
      {"ppoll", {SYS_ppoll, 0, 0, (long)&second, none, bytes}},
      {"pselect", {SYS_pselect6, 0, 0, 0, 0, (long)&second, (long)sets}},
      {"epoll_pwait", {SYS_epoll_pwait, epoll, (long)&event, 1, 1000, none, bytes}},
  };
  for (int i = 0; i < 4; i++) {
    report(waits[i].name, wait_so(waits[i].args, 0));
    leaves = 1;
    report("  out of it", wait_so(waits[i].args, 0));
    leaves = 0;
    report("  trapped", wait_so(waits[i].args, kTrapFlag));
    EXPECT((status_mask("SigBlk") & 0xa00) == 0xa00);
  }
  // What has no handler ends no wait.
  raise(SIGURG);
  const long brief[7] = {SYS_ppoll, 0, 0, (long)&shortly, none, bytes};
  report("without a handler", call_marked(brief, 0));
  raise(SIGUSR2);
  raise(SIGURG);
  report("one of two", call_marked(waits[0].args, 0));
  return 0;
}
