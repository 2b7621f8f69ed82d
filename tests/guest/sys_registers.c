// SPDX-License-Identifier: MIT
//
// The system call instruction as a program sees it: rcx is the next instruction's address, r11 the
// flags, every other register survives, errors are negative numbers, all six arguments arrive,
// unknown numbers fail with ENOSYS. And the other doors: vdso, vsyscall-free time, getcpu,
// arch_prctl.
#include <asm/prctl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "signals.h"

struct Registers {
  uint64_t general[16];
  uint64_t flags;
};

void call_kernel(struct Registers* registers);
extern const char after_syscall[];
__asm__(
    ".intel_syntax noprefix\n.text\n.p2align 4\ncall_kernel:\n  endbr64\n"
    "  push rbx\n  push rbp\n  push r12\n  push r13\n  push r14\n  push r15\n  push rdi\n"
    "  push qword ptr [rdi+128]\n  popfq\n"
    "  mov rax, [rdi]\n  mov rcx, [rdi+8]\n  mov rdx, [rdi+16]\n  mov rbx, [rdi+24]\n"
    "  mov rbp, [rdi+40]\n  mov rsi, [rdi+48]\n  mov r8, [rdi+64]\n  mov r9, [rdi+72]\n"
    "  mov r10, [rdi+80]\n  mov r11, [rdi+88]\n  mov r12, [rdi+96]\n  mov r13, [rdi+104]\n"
    "  mov r14, [rdi+112]\n  mov r15, [rdi+120]\n  mov rdi, [rdi+56]\n"
    "  syscall\n"
    "after_syscall:\n"
    "  push rax\n  mov rax, [rsp+8]\n  pop qword ptr [rax]\n"
    "  mov [rax+8], rcx\n  pushfq\n  pop qword ptr [rax+128]\n"
    "  mov [rax+16], rdx\n  mov [rax+24], rbx\n  mov [rax+40], rbp\n  mov [rax+48], rsi\n"
    "  mov [rax+56], rdi\n  mov [rax+64], r8\n  mov [rax+72], r9\n  mov [rax+80], r10\n"
    "  mov [rax+88], r11\n  mov [rax+96], r12\n  mov [rax+104], r13\n  mov [rax+112], r14\n"
    "  mov [rax+120], r15\n"
    "  pop rdi\n  pop r15\n  pop r14\n  pop r13\n  pop r12\n  pop rbp\n  pop rbx\n  ret\n"
    ".att_syntax\n");

static int64_t checked_syscall(uint64_t number, const uint64_t arguments[6], uint64_t* random) {
  static const int kArgument[6] = {7, 6, 2, 10, 8, 9};
  struct Registers registers, before;
  for (int i = 0; i < 16; ++i) registers.general[i] = next_random(random);
  registers.flags = (next_random(random) & 0x8d5) | 0x202;
  registers.general[0] = number;
  for (int i = 0; i < 6; ++i) registers.general[kArgument[i]] = arguments[i];
  before = registers;
  call_kernel(&registers);
  for (int i = 1; i < 16; ++i)
    if (i != 1 && i != 4 && i != 11) EXPECT(registers.general[i] == before.general[i]);
  EXPECT(registers.general[1] == (uint64_t)(uintptr_t)after_syscall);
  EXPECT((registers.flags & 0xcd5) == (before.flags & 0xcd5));
  EXPECT((registers.general[11] & 0x3cd5) == (before.flags & 0x3cd5));
  return (int64_t)registers.general[0];
}

static void test_registers(void) {
  uint64_t random = 5;
  const uint64_t none[6] = {0, 0, 0, 0, 0, 0};
  for (int i = 0; i < 200; ++i) {
    EXPECT(checked_syscall(SYS_getpid, none, &random) == getpid());
    const uint64_t bad_close[6] = {9999, 0, 0, 0, 0, 0};
    EXPECT(checked_syscall(SYS_close, bad_close, &random) == -EBADF);
    EXPECT(checked_syscall(9999, none, &random) == -ENOSYS);
    EXPECT(checked_syscall((uint64_t)-1, none, &random) == -ENOSYS);
    EXPECT(checked_syscall(0x40000000u + SYS_getpid + 5000, none, &random) == -ENOSYS);
    const uint64_t map[6] = {
        0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
    const int64_t mapped = checked_syscall(SYS_mmap, map, &random);
    EXPECT(mapped > 0);
    ((volatile char*)mapped)[8191] = 1;
    const uint64_t unmap[6] = {(uint64_t)mapped, 8192, 0, 0, 0, 0};
    EXPECT(checked_syscall(SYS_munmap, unmap, &random) == 0);
    const uint64_t bad_pointer[6] = {1, 8, 100, 0, 0, 0};
    EXPECT(checked_syscall(SYS_write, bad_pointer, &random) == -EFAULT);
  }
  printf("registers around system calls\n");
}

static void test_time(void) {
  struct timespec a, b, c;
  struct timeval tv;
  for (int i = 0; i < 1000; ++i) {
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &a) == 0);
    EXPECT(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b) == 0);
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &c) == 0);
    const int64_t x = a.tv_sec * 1000000000 + a.tv_nsec, y = b.tv_sec * 1000000000 + b.tv_nsec,
                  z = c.tv_sec * 1000000000 + c.tv_nsec;
    EXPECT(x <= y && y <= z);
    // time() reads the clock of the last tick and may lag behind across a second.
    EXPECT(gettimeofday(&tv, NULL) == 0 && time(NULL) >= tv.tv_sec - 1);
    unsigned cpu = 0, node = 0;
    EXPECT(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
    EXPECT(sched_getcpu() >= 0);
    EXPECT(clock_getres(CLOCK_REALTIME, &a) == 0);
  }
  EXPECT(getauxval(AT_SYSINFO_EHDR) != 0);
  uint32_t low, high, id;
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(id));
    const uint64_t now = low | (uint64_t)high << 32;
    EXPECT(now >= last);
    last = now;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  }
  printf("clocks\n");
}

static void test_segments(void) {
  unsigned long fs, gs;
  EXPECT(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0 && fs != 0);
  EXPECT(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0);
  uint64_t self;
  __asm__ volatile("mov %%fs:0x10, %0" : "=r"(self));
  EXPECT(self == fs);
  // A thread area of our own for a moment, with no call to the C library in between.
  static uint64_t area[32];
  area[3] = 0x123456789;
  uint64_t seen;
  long result;
  __asm__ volatile(
      "mov $158, %%eax\n mov $0x1002, %%edi\n lea %[area], %%rsi\n syscall\n"
      "mov %%fs:24, %[seen]\n"
      "mov $158, %%eax\n mov $0x1002, %%edi\n mov %[fs], %%rsi\n syscall\n"
      : "=&a"(result), [seen] "=&r"(seen)
      : [area] "m"(area), [fs] "r"(fs)
      : "rcx", "r11", "rdi", "rsi", "memory");
  EXPECT(result == 0 && seen == 0x123456789);
  printf("fs base: gs base is %s\n", gs == 0 ? "zero" : "not zero");
}

int main(void) {
  test_registers();
  test_time();
  test_segments();
  char link[4096];
  EXPECT(readlink("/proc/self/exe", link, sizeof(link)) > 0);
  return 0;
}
