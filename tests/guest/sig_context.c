// SPDX-License-Identifier: MIT
//
// What a handler sees of the interrupted program: rip is the faulting instruction's own address,
// every general-purpose register, the flags and the vector registers are the program's, si_addr is
// the address that was touched. And what it changes takes effect: r15 and others, flags, xmm0.
#include <cpuid.h>

#include "signals.h"

struct State {
  uint64_t general[16];  // encoding order; [4] is rsp, filled by the faulting function
  uint64_t flags;
  unsigned char xmm[16][16];
};

// Loads `state`, touches the address in r13 at the label, stores all into `state` again.
void fault_here(struct State* state);
extern const char fault_label[], fault_resume[];
__asm__(
    ".intel_syntax noprefix\n.text\n.p2align 4\n"
    "fault_here:\n  endbr64\n"
    "  push rbx\n  push rbp\n  push r12\n  push r13\n  push r14\n  push r15\n  push rdi\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  movups xmm\\n, [rdi+136+16*\\n]\n  .endr\n"
    "  push qword ptr [rdi+128]\n  popfq\n"
    "  mov [rdi+32], rsp\n"
    "  mov rax, [rdi]\n  mov rcx, [rdi+8]\n  mov rdx, [rdi+16]\n  mov rbx, [rdi+24]\n"
    "  mov rbp, [rdi+40]\n  mov rsi, [rdi+48]\n  mov r8, [rdi+64]\n  mov r9, [rdi+72]\n"
    "  mov r10, [rdi+80]\n  mov r11, [rdi+88]\n  mov r12, [rdi+96]\n  mov r13, [rdi+104]\n"
    "  mov r14, [rdi+112]\n  mov r15, [rdi+120]\n  mov rdi, [rdi+56]\n"
    "fault_label:\n"
    "  mov [r13+r15*8], rcx\n"
    "fault_resume:\n"
    "  push rax\n  mov rax, [rsp+8]\n  pop qword ptr [rax]\n"
    "  mov [rax+8], rcx\n  pushfq\n  pop qword ptr [rax+128]\n"
    "  mov [rax+16], rdx\n  mov [rax+24], rbx\n  mov [rax+32], rsp\n  mov [rax+40], rbp\n"
    "  mov [rax+48], rsi\n  mov [rax+56], rdi\n  mov [rax+64], r8\n  mov [rax+72], r9\n"
    "  mov [rax+80], r10\n  mov [rax+88], r11\n  mov [rax+96], r12\n  mov [rax+104], r13\n"
    "  mov [rax+112], r14\n  mov [rax+120], r15\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  movups [rax+136+16*\\n], xmm\\n\n  .endr\n"
    "  pop rdi\n  pop r15\n  pop r14\n  pop r13\n  pop r12\n  pop rbp\n  pop rbx\n  ret\n"
    ".att_syntax\n");

static const int kContextIndex[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                      REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                      REG_R12, REG_R13, REG_R14, REG_R15};
enum { kFlagMask = 0xcd5 };

static struct State before;
static volatile int faults, wrong;
static int change_registers;

static void check(int condition, const char* what, int index) {
  if (condition) return;
  wrong = wrong + 1;
  dprintf(1, "wrong: %s %d\n", what, index);
}

static void handler(int number, siginfo_t* info, void* context) {
  mcontext_t* machine = &((ucontext_t*)context)->uc_mcontext;
  faults = faults + 1;
  check(number == SIGSEGV && info->si_code == SEGV_MAPERR, "code", info->si_code);
  check((uint64_t)info->si_addr == before.general[13] + before.general[15] * 8, "address", 0);
  check(machine->gregs[REG_RIP] == (greg_t)(uintptr_t)fault_label, "rip", 0);
  for (int i = 0; i < 16; ++i)
    check((uint64_t)machine->gregs[kContextIndex[i]] == before.general[i], "register", i);
  check((machine->gregs[REG_EFL] & kFlagMask) == (greg_t)(before.flags & kFlagMask), "flags", 0);
  check((machine->gregs[REG_ERR] & 6) == 6, "error code", (int)machine->gregs[REG_ERR]);
  check(machine->gregs[REG_TRAPNO] == 14, "trap number", (int)machine->gregs[REG_TRAPNO]);
  check(machine->gregs[REG_CR2] == (greg_t)info->si_addr, "cr2", 0);
  for (int i = 0; i < 16; ++i)
    check(memcmp(&machine->fpregs->_xmm[i], before.xmm[i], 16) == 0, "xmm", i);
  machine->gregs[REG_RIP] = (greg_t)(uintptr_t)fault_resume;
  if (!change_registers) return;
  for (int i = 0; i < 16; ++i) {
    if (i != 4) machine->gregs[kContextIndex[i]] ^= 0x1111 * (i + 1);
    machine->fpregs->_xmm[i].element[2] ^= 0x77u + (uint32_t)i;
  }
  machine->gregs[REG_EFL] ^= 0x8d5;
}

static void run_one(uint64_t* random) {
  for (int i = 0; i < 16; ++i) before.general[i] = next_random(random);
  before.general[15] = next_random(random) & 0xff;
  before.general[13] = 0x1000 + (next_random(random) & 0x7f8);  // the first pages are never mapped
  before.flags = (next_random(random) & 0x8d5) | 0x202;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) before.xmm[i][j] = (unsigned char)next_random(random);
  struct State* state = &before;
  struct State copy = before;
  fault_here(state);
  // before.general[4] was written on the way in and out: the same both times.
  copy.general[4] = state->general[4];
  for (int i = 0; change_registers && i < 16; ++i) {
    if (i != 4) copy.general[i] ^= 0x1111 * (uint64_t)(i + 1);
    uint32_t word;
    memcpy(&word, &copy.xmm[i][8], 4);
    word ^= 0x77u + (uint32_t)i;
    memcpy(&copy.xmm[i][8], &word, 4);
  }
  if (change_registers) copy.flags ^= 0x8d5;
  for (int i = 0; i < 16; ++i) check(copy.general[i] == state->general[i], "after: register", i);
  check(((copy.flags ^ state->flags) & kFlagMask) == 0, "after: flags", 0);
  check(memcmp(copy.xmm, state->xmm, sizeof(copy.xmm)) == 0, "after: xmm", 0);
}

int main(void) {
  install(SIGSEGV, handler, 0);
  uint64_t random = 7;
  for (int i = 0; i < 500; ++i) run_one(&random);
  change_registers = 1;
  for (int i = 0; i < 500; ++i) run_one(&random);
  printf("faults %d wrong %d\n", faults, wrong);
  return wrong != 0;
}
