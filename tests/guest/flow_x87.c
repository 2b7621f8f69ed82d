// SPDX-License-Identifier: MIT
//
// Where the x87 unit's last instruction was: by fnstenv, fnsave, fxsave and xsave, through all
// kinds of operands, in signal frames, and with the flags and registers kept. AMD's processors
// forget the address whenever the kernel switches threads, and do not give it to fxsave and xsave
// at all unless an exception is pending. Some hypervisors give a wrong one now and then, to any
// program. So each way is tried until it tells something, a thousand times at most, and what it
// tells must be right or nothing most of the time.
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include "guest.h"

struct Area {
  unsigned char bytes[4096];
} __attribute__((aligned(64)));
static struct Area area;
static uint64_t told, wrong;

static void judge(uint64_t stored, const void* expected, uint64_t mask) {
  if (stored == 0) return;
  if (stored == ((uintptr_t)expected & mask)) {
    told++;
  } else {
    wrong++;
  }
}

static uint64_t low_at(size_t offset) {
  uint32_t value;
  memcpy(&value, area.bytes + offset, sizeof value);
  return value;
}

static uint64_t whole_at(size_t offset) {
  uint64_t value;
  memcpy(&value, area.bytes + offset, sizeof value);
  return value;
}

// The address of the marked instruction is left in `at`. `raise` leaves an exception pending: a
// square root of -1.
#define MARKED(body)                                                     \
  __asm__ volatile("lea 77f(%%rip), %[at]\n" body                        \
                   : [at] "=&r"(at)                                      \
                   : [area] "r"(&area), [index] "r"(2ul), "a"(7), "d"(0) \
                   : "rcx", "r14", "memory", "cc", "st", "st(1)", "st(2)", "st(3)")

static const uint64_t kLow = 0xffffffff;

static void by_environment(void) {
  const void* at;
  MARKED("fld1\n 77: fstp %%st(0)\n fnstenv (%[area])\n fldenv (%[area])");
  judge(low_at(12), at, kLow);
  MARKED(
      "fld1\n 77: fstp %%st(0)\n mov %[area], %%r14\n sub $16, %%r14\n"
      " fnstenv (%%r14,%[index],8)\n fldenv (%[area])");
  judge(low_at(12), at, kLow);
  MARKED("mov %[area], %%rcx\n fld1\n 77: fstp %%st(0)\n fnstenv (%%rcx)\n fldenv (%[area])");
  judge(low_at(12), at, kLow);
  MARKED("77: fld1\n fnsave (%[area])");
  judge(low_at(12), at, kLow);
  MARKED("77: fld1\n fnsave area(%%rip)");
  judge(low_at(12), at, kLow);
}

// With a 16-bit operand size the low 16 bits are stored.
static uint64_t low_16_at(size_t offset) {
  return low_at(offset) & 0xffff;
}

#define SMALL ".byte 0x66\n"
#define WIDE ".byte 0x66, 0x48\n"  // the second prefix makes it the ordinary size again

static void by_small_environment(void) {
  static const uint64_t kMask = 0xffff;
  static const uint16_t kInvalid = 0x37e, kUsual = 0x37f;
  const void* at;
  MARKED("fld1\n 77: fstp %%st(0)\n" SMALL "fnstenv (%[area])\n" SMALL "fldenv (%[area])");
  judge(low_16_at(6), at, kMask);
  MARKED("fld1\n 77: fstp %%st(0)\n mov %[area], %%r14\n sub $16, %%r14\n" SMALL
         "fnstenv (%%r14,%[index],8)");
  judge(low_16_at(6), at, kMask);
  MARKED("mov %[area], %%rcx\n fld1\n 77: fstp %%st(0)\n" WIDE "fnstenv (%%rcx)");
  judge(low_at(12), at, kLow);
  // The unit keeps the whole address.
  MARKED("fld1\n 77: fstp %%st(0)\n" SMALL "fnstenv (%[area])\n fnstenv 32(%[area])");
  judge(low_16_at(6), at, kMask);
  judge(low_at(44), at, kLow);
  MARKED("77: fld1\n" SMALL "fnsave (%[area])");
  judge(low_16_at(6), at, kMask);
  MARKED("77: fld1\n" SMALL "fnsave area(%%rip)");
  judge(low_16_at(6), at, kMask);
  // With a pending exception, which is stored too.
  __asm__ volatile("fldcw %0" ::"m"(kInvalid));
  MARKED("fld1\n fchs\n 77: fsqrt\n" SMALL "fnsave (%[area])");
  judge(low_16_at(6), at, kMask);
  EXPECT((low_at(0) & 0xffff) == kInvalid && (low_at(2) & 0x81) == 0x81);
  __asm__ volatile("fldcw %0" ::"m"(kInvalid));
  MARKED("fld1\n fchs\n 77: fsqrt\n" SMALL "fnstenv (%[area])\n fnclex\n fstp %%st(0)");
  judge(low_16_at(6), at, kMask);
  EXPECT((low_at(0) & 0xffff) == kInvalid && (low_at(2) & 0x81) == 0x81);
  __asm__ volatile("fnstcw %0\n fldcw %1" : "=m"(area.bytes[64]) : "m"(kUsual));
  EXPECT((low_at(64) & 0xffff) == kUsual);
}

static void by_small_r15(void) {
  const void* at;
  __asm__ volatile("lea 77f(%%rip), %0\n mov %1, %%r15\n fld1\n 77: fstp %%st(0)\n" SMALL
                   "fnstenv (%%r15)\n fld1\n fstp %%st(0)"
                   : "=&r"(at)
                   : "r"(&area)
                   : "r15", "memory", "st");
  judge(low_16_at(6), at, 0xffff);
  __asm__ volatile("lea 77f(%%rip), %0\n mov %1, %%r15\n fld1\n 77: fstp %%st(0)\n" SMALL
                   "fnsave (%%r15)"
                   : "=&r"(at)
                   : "r"(&area)
                   : "r15", "memory", "st");
  judge(low_16_at(6), at, 0xffff);
}

static void by_r15(void) {
  const void* at;
  uint64_t low;
  __asm__ volatile(
      "lea 77f(%%rip), %0\n mov %2, %%r15\n fld1\n 77: fstp %%st(0)\n fnstenv (%%r15)\n"
      "fldenv (%%r15)\n mov 12(%%r15), %k1"
      : "=&r"(at), "=&r"(low)
      : "r"(&area)
      : "r15", "memory", "st");
  judge(low, at, kLow);
}

// Registers and flags are what they were.
static void by_the_way(void) {
  uint64_t flags, rcx;
  __asm__ volatile(
      "mov $0x1234567, %%ecx\n fld1\n fstp %%st(0)\n xor %%eax, %%eax\n stc\n fnstenv (%2)\n"
      "pushf\n pop %0\n mov %%rcx, %1\n fldenv (%2)"
      : "=&r"(flags), "=&r"(rcx)
      : "r"(&area)
      : "rax", "rcx", "memory", "cc", "st");
  EXPECT((flags & 0x8d5) == 0x45);
  EXPECT(rcx == 0x1234567);
}

static void by_area(void) {
  const void* at;
  MARKED("77: fld1\n fstp %%st(0)\n fxsave64 (%[area])");
  judge(whole_at(8), (const char*)at + 2, ~0ul);
  // An unmasked invalid operation, cleared before anything waits for it.
  static const uint16_t kInvalid = 0x37e;
  __asm__ volatile("fldcw %0" ::"m"(kInvalid));
  MARKED("fld1\n fchs\n 77: fsqrt\n fxsave64 (%[area])\n fnclex\n fstp %%st(0)");
  judge(whole_at(8), at, ~0ul);
  MARKED("fld1\n fchs\n 77: fsqrt\n fxsave (%[area])\n fnclex\n fstp %%st(0)");
  judge(low_at(8), at, kLow);
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE)) {
    MARKED("fld1\n fchs\n 77: fsqrt\n xsave64 (%[area])\n fnclex\n fstp %%st(0)");
    judge(whole_at(8), at, ~0ul);
  }
  __asm__ volatile("fninit");
}

static const void* faulting;

static void on_exception(int number, siginfo_t* info, void* context) {
  const ucontext_t* uc = context;
  EXPECT(number == SIGFPE && info->si_addr != NULL);
  judge(uc->uc_mcontext.fpregs->rip, faulting, ~0ul);
  uc->uc_mcontext.fpregs->swd = 0;
  uc->uc_mcontext.fpregs->cwd = 0x37f;
}

static void by_frame(void) {
  static const uint16_t kInvalid = 0x37e;
  __asm__ volatile("fldcw %0" ::"m"(kInvalid));
  __asm__ volatile(
      "lea 77f(%%rip), %%rax\n mov %%rax, %0\n fld1\n fchs\n 77: fsqrt\n fwait\n"
      "fninit"
      : "=m"(faulting)::"rax", "memory", "st", "st(1)");
}

int main(void) {
  static void (*const kWays[])(void) = {by_environment, by_r15,  by_small_environment,
                                        by_small_r15,   by_area, by_frame};
  struct sigaction action = {.sa_sigaction = on_exception, .sa_flags = SA_SIGINFO};
  EXPECT(sigaction(SIGFPE, &action, NULL) == 0);
  for (size_t i = 0; i < sizeof(kWays) / sizeof(kWays[0]); ++i) {
    told = wrong = 0;
    for (int round = 0; round < 1000 && (told < 2 || round < 100); ++round) kWays[i]();
    printf("way %zu: %s, wrong %d\n", i, told >= 2 ? "told" : "silent", wrong > told);
  }
  by_the_way();
  return 0;
}
