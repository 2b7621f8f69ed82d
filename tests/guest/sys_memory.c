// SPDX-License-Identifier: MIT
//
// A program that changes its own address space: brk, mmap at chosen and over used addresses,
// mremap, munmap of middles, protection changes, madvise, big reservations, a tight RLIMIT_AS, file
// mappings, guard pages and a stack overflow that is caught on an alternate stack and survived.
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "signals.h"

enum { kPage = 4096 };

static void test_brk(void) {
  char* start = sbrk(0);
  EXPECT(start != (char*)-1);
  for (int i = 0; i < 50; ++i) {
    char* now = sbrk(10000);
    EXPECT(now != (char*)-1);
    memset(now, i, 10000);
  }
  EXPECT(start[499999] == 49 && brk(start + 100) == 0 && sbrk(0) == start + 100);
  EXPECT(brk(start) == 0);
  printf("brk\n");
}

static void test_fixed(void) {
  char* area = mmap(NULL, 64 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(area != MAP_FAILED);
  memset(area, 7, 64 * kPage);
  for (int i = 1; i < 63; i += 2) {
    char* again = mmap(area + i * kPage, kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(again == area + i * kPage && again[5] == 0 && again[-1] == 7);
    again[5] = (char)i;
  }
  EXPECT(mmap(area, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
             MAP_FAILED &&
         errno == EEXIST);
  EXPECT(munmap(area + 20 * kPage, 10 * kPage) == 0);
  EXPECT(msync(area + 20 * kPage, kPage, MS_ASYNC) == -1 && errno == ENOMEM);
  char* moved = mremap(area, 20 * kPage, 40 * kPage, MREMAP_MAYMOVE);
  EXPECT(moved != MAP_FAILED && moved[0] == 7 && moved[kPage + 5] == 1);
  EXPECT(mremap(moved, 40 * kPage, 5 * kPage, 0) == moved);
  EXPECT(madvise(moved, 2 * kPage, MADV_DONTNEED) == 0 && moved[0] == 0 && moved[2 * kPage] == 7);
  uint64_t hash = mix_bytes(1, moved, 5 * kPage);
  munmap(moved, 5 * kPage);
  munmap(area + 30 * kPage, 34 * kPage);
  printf("fixed %016llx\n", (unsigned long long)hash);
}

static void test_big(void) {
  const size_t size = (size_t)1 << 38;
  char* reserved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT(reserved != MAP_FAILED);
  EXPECT(mprotect(reserved + size / 2, kPage, PROT_READ | PROT_WRITE) == 0);
  reserved[size / 2] = 1;
  EXPECT(munmap(reserved, size) == 0);
  char* blocks[64];
  uint64_t hash = 1;
  for (int i = 0; i < 64; ++i) {
    blocks[i] = malloc((size_t)(i + 1) * 50000);
    EXPECT(blocks[i] != NULL);
    memset(blocks[i], i, (size_t)(i + 1) * 50000);
  }
  for (int i = 0; i < 64; ++i) hash = mix_bytes(hash, blocks[i], 50000);
  for (int i = 0; i < 64; ++i) free(blocks[(i * 37) % 64]);
  printf("big %016llx\n", (unsigned long long)hash);
}

static void test_files(void) {
  const int fd = open("sys_memory.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT(fd >= 0 && ftruncate(fd, 16 * kPage) == 0);
  char* shared = mmap(NULL, 16 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char* own = mmap(NULL, 16 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  EXPECT(shared != MAP_FAILED && own != MAP_FAILED);
  for (int i = 0; i < 16; ++i) shared[i * kPage] = (char)(i + 1);
  own[3 * kPage] = 99;
  char byte;
  EXPECT(pread(fd, &byte, 1, 3 * kPage) == 1 && byte == 4 && own[3 * kPage] == 99);
  EXPECT(own[5 * kPage] == 6);
  struct iovec parts[2] = {{"abc", 3}, {"defg", 4}};
  EXPECT(pwritev(fd, parts, 2, kPage) == 7 && memcmp(shared + kPage, "abcdefg", 7) == 0);
  munmap(shared, 16 * kPage);
  munmap(own, 16 * kPage);
  close(fd);
  printf("files\n");
}

static sigjmp_buf landing;
static volatile int overflows;
static void on_overflow(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  char local;
  // The address is near the end of the stack and far from where we run.
  EXPECT(llabs((char*)info->si_addr - &local) > 65536);
  overflows = overflows + 1;
  siglongjmp(landing, 1);
}
__attribute__((noinline)) static uint64_t endless(uint64_t n) {
  volatile char frame[200];
  frame[n % 200] = (char)n;
  if (n == UINT64_MAX) return 0;
  return endless(n + 1) + (uint64_t)frame[(n + 1) % 200];
}

static void test_overflow(void) {
  static char alternate[65536];
  const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
  EXPECT(sigaltstack(&stack, NULL) == 0);
  install(SIGSEGV, on_overflow, SA_ONSTACK);
  for (volatile int i = 0; i < 5; ++i) {
    if (sigsetjmp(landing, 1) == 0) printf("%llu\n", (unsigned long long)endless(0));
  }
  printf("stack overflows %d\n", overflows);
}

static void test_limit(void) {
  const struct rlimit limit = {400u << 20, 400u << 20};
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  EXPECT(mmap(NULL, 500u << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
         errno == ENOMEM);
  void* volatile too_much = malloc(1u << 30);
  EXPECT(too_much == NULL);
  char* some = malloc(100u << 20);
  EXPECT(some != NULL);
  memset(some, 1, 100u << 20);
  free(some);
  printf("address space limit %016llx\n", (unsigned long long)burn(1, 100000));
}

int main(void) {
  test_brk();
  test_fixed();
  test_big();
  test_files();
  test_overflow();
  test_limit();
  return 0;
}
