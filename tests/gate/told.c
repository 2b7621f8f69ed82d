// SPDX-License-Identifier: MIT
//
// Says what it is told of the machine that it runs on: machine.py runs it with --deterministic.
#define _GNU_SOURCE
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

// Where nothing is.
static void* volatile nowhere = (void*)8;

static void bytes(const char* name, const void* data, long size) {
  printf("%s:", name);
  for (long i = 0; i < size; i++) printf(" %02x", ((const unsigned char*)data)[i]);
  printf("\n");
}

static const char* failed(long result) { return result < 0 ? strerrorname_np(errno) : "no"; }

// The C library has an opinion of its own of AT_HWCAP.
static unsigned long from_kernel(unsigned long type) {
  char** end = environ;
  while (*end) end++;
  for (const Elf64_auxv_t* entry = (const Elf64_auxv_t*)(end + 1); entry->a_type != AT_NULL;
       entry++)
    if (entry->a_type == type) return entry->a_un.a_val;
  return 0;
}

static void tell_stack(int argc, char** argv) {
  printf("stack: %p %p %p %p\n", (void*)argv, (void*)argv[0], (void*)argv[1], (void*)environ[0]);
  printf("path: %#lx\n", getauxval(AT_EXECFN));
  printf("vdso: %#lx, rest: %#lx %#lx %s\n", from_kernel(AT_SYSINFO_EHDR), from_kernel(AT_HWCAP),
         from_kernel(AT_HWCAP2), (const char*)from_kernel(AT_PLATFORM));
  bytes("canary", (const void*)getauxval(AT_RANDOM), 16);
  char line[4096];
  const int fd = open("/proc/self/cmdline", O_RDONLY);
  const char* end = line + (fd < 0 ? 0 : read(fd, line, sizeof line));
  const char* at = line;
  int same = 0;
  for (; same < argc && at < end && strcmp(at, argv[same]) == 0; same++) at += strlen(at) + 1;
  printf("arguments that /proc has: %d of %d, and %ld bytes more\n", same, argc, (long)(end - at));
  close(fd);
}

static void tell_random(const char* device) {
  unsigned char b[16];
  const int fd = open(device, O_RDONLY);
  printf("%s: %ld", device, (long)read(fd, b, sizeof b));
  bytes("", b, sizeof b);
  printf("%ld", (long)pread(fd, b, sizeof b, 0));
  bytes("", b, sizeof b);
  printf("into nowhere: %s\n", failed(read(fd, nowhere, 4)));
  const int copy = dup(fd);
  close(fd);
  printf("of a copy: %ld\n", (long)read(copy, b, 5));
  close(copy);
  printf("of a closed one: %s\n", failed(read(copy, b, 4)));
  const int other = open(device, O_WRONLY);
  printf("of one for writing: %s\n", failed(read(other, b, 4)));
  close(other);
}

static void tell_random_calls(void) {
  unsigned char b[16];
  printf("getrandom: %ld", (long)getrandom(b, sizeof b, 0));
  bytes("", b, sizeof b);
  printf("%ld", (long)getrandom(b, sizeof b, GRND_NONBLOCK));
  bytes("", b, sizeof b);
  printf("none: %ld\n", (long)getrandom(NULL, 0, 0));
  printf("wrong: %s %s\n", failed(getrandom(nowhere, 4, 0)),
         failed(syscall(SYS_getrandom, b, 4L, 0x100L)));
  fflush(stdout);
  if (fork() == 0) {
    getrandom(b, sizeof b, 0);
    bytes("child", b, sizeof b);
    fflush(stdout);
    _exit(0);
  }
  wait(NULL);
  // Pipes are read as ever, whatever else is.
  int ends[2];
  if (pipe(ends) == 0 && write(ends[1], "pipe", 4) == 4)
    printf("pipe: %ld %.4s\n", (long)read(ends[0], b, 16), b);
}

static void tell_cores(void) {
  cpu_set_t set;
  int done = sched_getaffinity(0, sizeof set, &set);
  printf("cores: %d %d", done, CPU_COUNT(&set));
  done = sched_getaffinity((pid_t)syscall(SYS_gettid), sizeof set, &set);
  printf(" %d %d\n", done, CPU_COUNT(&set));
  unsigned long word = 0;
  const long size = syscall(SYS_sched_getaffinity, 0, sizeof word, &word);
  printf("mask: %ld %lx", size, word);
  printf(" %s\n", failed(syscall(SYS_sched_getaffinity, 0, 3, &word)));
  CPU_ZERO(&set);
  CPU_SET(1, &set);
  printf("set: %s", failed(sched_setaffinity(0, sizeof set, &set)));
  CPU_SET(0, &set);
  printf(" %s\n", failed(sched_setaffinity(0, sizeof set, &set)));
  unsigned core = 9, node = 9;
  done = getcpu(&core, &node);
  printf("on: %d, %d %u %u, %s\n", sched_getcpu(), done, core, node,
         failed(syscall(SYS_getcpu, 8L, 0L, 0L)));
  printf("processors: %ld %ld\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
}

static void tell_system(void) {
  struct sysinfo info;
  sysinfo(&info);
  printf("memory: %lu %lu %u, up %ld, %u processes\n", info.totalram, info.freeram, info.mem_unit,
         info.uptime, (unsigned)info.procs);
  printf("pages: %ld %ld\n", sysconf(_SC_PHYS_PAGES), sysconf(_SC_AVPHYS_PAGES));
  struct utsname name;
  uname(&name);
  printf("kernel: %s %s %s %s\n", name.sysname, name.release, name.version, name.machine);
}

static void tell_file(const char* path) {
  static char text[1 << 16];
  const int unused = dup(0), fd = (close(unused), open(path, O_RDONLY)),
            again = open(path, O_RDONLY | O_CLOEXEC);
  const long size = read(fd, text, sizeof text - 1), same = read(again, text, sizeof text - 1);
  text[size < 0 ? 0 : size] = 0;
  printf("%s: %d %d, %d %d, %d, writing %s\n%s", path, fd == unused, again == unused + 1,
         fcntl(fd, F_GETFD), fcntl(again, F_GETFD), size == same, failed(write(fd, "x", 1)), text);
  close(fd);
  close(again);
}

static void tell_relative(void) {
  const int proc = open("/proc", O_RDONLY | O_DIRECTORY),
            cpu = open("/sys/devices/system", O_RDONLY | O_DIRECTORY);
  char text[32] = {0};
  const int first = openat(proc, "meminfo", O_RDONLY), second = openat(cpu, "cpu/online", O_RDONLY);
  const long one = read(first, text, 26), two = read(second, text + 26, 5);
  printf("relative: %ld %ld %s", one, two, text);
  const int here = chdir("/proc"), third = open("cpuinfo", O_RDONLY);
  memset(text, 0, sizeof text);
  printf("here: %d %ld", here, (long)read(third, text, 14));
  printf(" %s", text);
}

static void tell_processor(void) {
  unsigned a, b, c, d;
  __cpuid(1, a, b, c, d);
  printf("rdrand %d, core %u", (c & bit_RDRND) != 0, b >> 24);
  const int has_state = (c & bit_OSXSAVE) != 0;
  printf(", avx %d, fma %d", (c & bit_AVX) != 0, (c & bit_FMA) != 0);
  __cpuid_count(7, 0, a, b, c, d);
  printf(", rdseed %d, avx2 %d, avx512vl %d\n", (b & bit_RDSEED) != 0, (b & bit_AVX2) != 0,
         (b & bit_AVX512VL) != 0);
  unsigned low = 0, high = 0;
  if (has_state) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  printf("state: %#x %#x\n", low, high);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  tell_stack(argc, argv);
  tell_random_calls();
  tell_random("/dev/urandom");
  tell_random("/dev/random");
  tell_cores();
  tell_system();
  tell_processor();
  const char* files[] = {"/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible",
                         "/sys/devices/system/cpu/present", "/proc/meminfo", "/proc/cpuinfo"};
  for (unsigned i = 0; i < 5; i++) tell_file(files[i]);
  tell_relative();
  return 0;
}
