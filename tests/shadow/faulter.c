// SPDX-License-Identifier: MIT
//
// faulter WORD: touches pages that another thread of it provides (userfaultfd), until its standard
// input is at its end, and prints whether each held what it should. `forks`: that thread is told of
// forks, too; `plain`: it is not. `hidden`: it is told of forks, and is the only one that has the
// descriptor. That thread never sleeps, so whoever stops what runs stops it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 512 };

static int faults;
static uint8_t* region;
static volatile int hides, is_hidden;

static void* provide(void* unused) {
  static uint64_t page[kPage / sizeof(uint64_t)] __attribute__((aligned(kPage)));
  (void)unused;
  if (hides && unshare(CLONE_FILES) == 0) is_hidden = 1;
  for (;;) {
    struct uffd_msg message;
    if (read(faults, &message, sizeof message) != (ssize_t)sizeof message) continue;
    if (message.event == UFFD_EVENT_FORK) close((int)message.arg.fork.ufd);
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    const uint64_t at = message.arg.pagefault.address & ~(uint64_t)(kPage - 1);
    page[0] = (at - (uint64_t)region) / kPage + 7;
    struct uffdio_copy copy = {.dst = at, .src = (uint64_t)page, .len = kPage};
    ioctl(faults, UFFDIO_COPY, &copy);
  }
  return NULL;
}

__attribute__((noinline)) static unsigned long compute(unsigned long x) {
  for (int i = 0; i < 20000; i++) x = x * 6364136223846793005ul + 1442695040888963407ul;
  return x;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  hides = strcmp(argv[1], "hidden") == 0;
  const int wants_forks = hides || strcmp(argv[1], "forks") == 0;
  faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  struct uffdio_api api = {.api = UFFD_API, .features = wants_forks ? UFFD_FEATURE_EVENT_FORK : 0};
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) {
    printf("cannot: %s\n", strerror(errno));
    return 77;
  }
  region = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register all = {.range = {(uint64_t)region, kPages * kPage},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (region == MAP_FAILED || ioctl(faults, UFFDIO_REGISTER, &all) != 0) return 2;
  pthread_t thread;
  pthread_create(&thread, NULL, provide, NULL);
  if (hides) {
    while (!is_hidden) sched_yield();
    close(faults);
  }
  puts("ready");
  fflush(stdout);
  fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  unsigned long x = 1, wrong = 0;
  for (char byte; read(STDIN_FILENO, &byte, 1) != 0;) {
    for (uint64_t i = 0; i < kPages; i++) {
      x = compute(x);
      wrong += *(volatile uint64_t*)(region + i * kPage) != i + 7;
    }
    madvise(region, kPages * kPage, MADV_DONTNEED);
  }
  puts(wrong == 0 && x != 0 ? "done" : "wrong");
  fflush(stdout);
  _exit(0);
}
