// SPDX-License-Identifier: MIT
//
// usage: runner FILE [MICROSECONDS | bare]
//
// Executes the generated cases of FILE and prints, for each, everything that a translator could get
// wrong: general-purpose registers, flags, vector, mask and x87 state, a hash of memory, and, if
// it ended by a signal, what its handler was told. The same output natively and under an engine
// means that the engine was not noticed.
//
// With MICROSECONDS, a timer's signal interrupts the cases that often, wherever they are; it must
// change nothing.
//
// With `bare` there is hardly anything around the cases: memory stays zero, nothing is printed. For
// single steps, which are slow.
//
// The last instruction and operand pointers of the x87 are left out of the XSAVE image: they are
// the code cache's under an engine.
#include <cpuid.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "case_format.h"

extern uint8_t state_image[4096];
extern uint32_t state_mask;
extern uint64_t case_gpr[16], case_flags, case_entry;
void enter_case(void);
extern char leave_case[];

enum { kX87 = 1, kSse = 2, kAvx = 4, kOpmask = 32, kZmmHigh = 64, kZmm16 = 128 };
static uint32_t component_offset[8];

// What the last signal handler was told.
static struct {
  int signal, code;
  uint64_t address, rip, trap, error;
} caught;

// Between enter_case and leave_case, wherever a wild jump may have led.
static volatile bool in_case;

static uint64_t random_state;
static uint64_t next_random(void) {
  random_state += 0x9e3779b97f4a7c15ull;
  uint64_t x = random_state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

static void must(bool ok, const char* what) {
  if (ok) return;
  perror(what);
  exit(99);
}

static void on_signal(int signal, siginfo_t* info, void* context) {
  ucontext_t* c = context;
  greg_t* r = c->uc_mcontext.gregs;
  const uint64_t rip = (uint64_t)r[REG_RIP];
  if (!in_case) {
    fprintf(stderr, "runner: signal %d at %#llx, outside a case\n", signal,
            (unsigned long long)rip);
    _exit(98);
  }
  caught.signal = signal;
  caught.code = info->si_code;
  caught.address = (uint64_t)info->si_addr;
  caught.rip = rip;
  caught.trap = (uint64_t)r[REG_TRAPNO];
  caught.error = (uint64_t)r[REG_ERR];
  r[REG_RIP] = (greg_t)(uintptr_t)leave_case;
}

// The context goes through memory and back: what is wrong in it is wrong in the case's result.
static void on_timer(int signal) {
  (void)signal;
}

static void start_timer(const char* microseconds) {
  struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_ONSTACK | SA_RESTART};
  must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
  const suseconds_t interval = strtol(microseconds, NULL, 10);
  const struct itimerval timer = {{0, interval}, {0, interval}};
  must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
}

static void map_area(uint64_t address, uint64_t bytes) {
  void* p = mmap((void*)address, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  must(p == (void*)address, "mmap");
}

static void find_state(void) {
  unsigned a, b, c, d;
  __cpuid_count(0xd, 0, a, b, c, d);
  state_mask = a & (kX87 | kSse | kAvx | kOpmask | kZmmHigh | kZmm16);
  for (unsigned i = 2; i < 8; i++) {
    if (!(state_mask & (1u << i))) continue;
    __cpuid_count(0xd, i, a, b, c, d);
    component_offset[i] = b;
    if (b + a > sizeof(state_image)) abort();
  }
}

// A vector register's worth of integers, floats, doubles, or a constant pattern.
static void fill_vector(uint8_t* out, size_t bytes) {
  const uint64_t kind = next_random() % 5;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t v = next_random();
    if (kind == 1) {
      const double value = (double)(int64_t)(v % 2001) / 8 - 125;
      memcpy(&v, &value, 8);
    } else if (kind == 2) {
      const float pair[2] = {(float)(v % 1000) / 4 - 60, (float)(v >> 40) / 1024};
      memcpy(&v, pair, 8);
    } else if (kind == 3) {
      v = v & 1 ? ~0ull : 0;
    }
    memcpy(out + i, &v, 8);
  }
}

static void prepare_state(const struct FuzzCase* c) {
  memset(state_image, 0, sizeof(state_image));
  const uint16_t control = 0x37f;
  memcpy(state_image, &control, 2);
  state_image[4] = (uint8_t)next_random();  // which of the x87 registers are in use
  memcpy(state_image + 24, &c->mxcsr, 4);
  for (int i = 0; i < 8; i++) {
    const uint64_t mantissa = next_random() | 1ull << 63;
    const uint16_t exponent = (uint16_t)(0x3ff0 + next_random() % 32);
    memcpy(state_image + 32 + 16 * i, &mantissa, 8);
    memcpy(state_image + 40 + 16 * i, &exponent, 2);
  }
  for (int i = 0; i < 16; i++) fill_vector(state_image + 160 + 16 * i, 16);
  const uint64_t present = state_mask;
  memcpy(state_image + 512, &present, 8);
  static const uint16_t lengths[8] = {0, 0, 256, 0, 0, 64, 512, 1024};
  for (int i = 2; i < 8; i++) {
    if (component_offset[i] == 0) continue;
    for (int at = 0; at < lengths[i]; at += 16) {
      fill_vector(state_image + component_offset[i] + at, 16);
    }
  }
}

static uint32_t hash(const void* data, size_t bytes) {
  uint64_t h = 1469598103934665603ull;
  const uint64_t* words = data;
  for (size_t i = 0; i < bytes / 8; i++) {
    h = (h ^ words[i]) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
  }
  return (uint32_t)(h ^ (h >> 32));
}

static void fill_memory(uint64_t address, uint64_t bytes) {
  uint64_t* words = (uint64_t*)address;
  for (uint64_t i = 0; i < bytes / 8; i++) words[i] = next_random();
}

static void print_state(const struct FuzzCase* c, uint64_t local) {
  static const char* const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  printf("%llu flags=%llx", (unsigned long long)c->seed, (unsigned long long)case_flags);
  for (int i = 0; i < 16; i++) printf(" %s=%llx", names[i], (unsigned long long)case_gpr[i]);
  uint32_t mxcsr;
  memcpy(&mxcsr, state_image + 24, 4);
  printf(" mxcsr=%x fpu=%x", mxcsr, *(const uint32_t*)state_image ^ (uint32_t)state_image[4] << 24);
  for (int i = 0; i < 8; i++) printf(" st%d=%x", i, hash(state_image + 32 + 16 * i, 16));
  for (int i = 0; i < 16; i++) printf(" x%d=%x", i, hash(state_image + 160 + 16 * i, 16));
  static const uint16_t lengths[8] = {0, 0, 256, 0, 0, 64, 512, 1024};
  for (int i = 2; i < 8; i++) {
    if (component_offset[i])
      printf(" v%d=%x", i, hash(state_image + component_offset[i], lengths[i]));
  }
  printf(" data=%x stack=%x local=%x code=%x", hash((void*)FUZZ_DATA, FUZZ_DATA_BYTES),
         hash((void*)FUZZ_STACK, FUZZ_STACK_BYTES), hash((void*)local, FUZZ_LOCAL_BYTES),
         hash((void*)(c->code_address & ~0xfffull), FUZZ_CODE_AREA / 2));
  if (caught.signal) {
    printf(" signal=%d cause=%d addr=%llx rip=%llx trap=%llu err=%llu", caught.signal, caught.code,
           (unsigned long long)caught.address, (unsigned long long)caught.rip,
           (unsigned long long)caught.trap, (unsigned long long)caught.error);
  }
  printf("\n");
}

static void run_case(const struct FuzzCase* c, bool bare) {
  const uint64_t area = c->code_address >= FUZZ_FAR_CODE ? FUZZ_FAR_CODE : FUZZ_NEAR_CODE;
  random_state = c->seed * 0x2545f4914f6cdd1dull;
  if (!bare) {
    fill_memory(FUZZ_DATA, FUZZ_DATA_BYTES);
    fill_memory(FUZZ_STACK, FUZZ_STACK_BYTES);
    fill_memory(area + FUZZ_LOCAL_DATA, FUZZ_LOCAL_BYTES);
  }
  prepare_state(c);

  const int both = PROT_READ | PROT_WRITE | (c->writable ? PROT_EXEC : 0);
  must(mprotect((void*)area, FUZZ_CODE_AREA, both) == 0, "mprotect");
  uint8_t* code = (uint8_t*)c->code_address;
  memcpy(code, c->code, c->code_bytes);
  const uint64_t exit_address = (uint64_t)(uintptr_t)leave_case;
  memcpy(code + c->exit_field, &exit_address, 8);
  if (!c->writable) {
    must(mprotect((void*)area, FUZZ_CODE_AREA, PROT_READ | PROT_EXEC) == 0, "mprotect");
  }
  memcpy(case_gpr, c->gpr, sizeof(case_gpr));
  case_flags = c->flags;
  case_entry = c->code_address;
  memset(&caught, 0, sizeof(caught));
  in_case = true;
  enter_case();
  in_case = false;
  if (!bare || caught.signal) print_state(c, area + FUZZ_LOCAL_DATA);
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: runner FILE [MICROSECONDS | bare]\n");
    return 2;
  }
  FILE* f = fopen(argv[1], "rb");
  must(f != NULL, argv[1]);
  uint64_t magic = 0;
  must(fread(&magic, 8, 1, f) == 1 && magic == FUZZ_MAGIC, "not a file of cases");
  find_state();
  map_area(FUZZ_NEAR_CODE, FUZZ_CODE_AREA);
  map_area(FUZZ_NEAR_CODE + FUZZ_LOCAL_DATA, FUZZ_LOCAL_BYTES);
  map_area(FUZZ_FAR_CODE, FUZZ_CODE_AREA);
  map_area(FUZZ_FAR_CODE + FUZZ_LOCAL_DATA, FUZZ_LOCAL_BYTES);
  map_area(FUZZ_DATA, FUZZ_DATA_BYTES);
  map_area(FUZZ_STACK, FUZZ_STACK_BYTES);

  static uint8_t signal_stack[65536];
  const stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
  must(sigaltstack(&alternate, NULL) == 0, "sigaltstack");
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigfillset(&action.sa_mask);
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
  for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
    must(sigaction(signals[i], &action, NULL) == 0, "sigaction");
  }
  const bool bare = argc == 3 && strcmp(argv[2], "bare") == 0;
  if (argc == 3 && !bare) start_timer(argv[2]);
  static struct FuzzCase c;
  while (fread(&c, sizeof(c), 1, f) == 1) run_case(&c, bare);
  return fclose(f) == 0 && fflush(stdout) == 0 ? 0 : 99;
}
