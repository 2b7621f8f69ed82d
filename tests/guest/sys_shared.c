// SPDX-License-Identifier: MIT
//
// Shared memory that is reserved first, and becomes accessible when it is used: anonymous, a
// memfd's and a file's. What is written there before this program writes it, somebody else has
// written. It sleeps before, which replicas do not.
#include <fcntl.h>
#include <sys/mman.h>

#include "guest.h"

enum { kPage = 4096, kPages = 4, kRounds = 40 };

static volatile uint64_t hash = 1;

static void use(int protection, int fd) {
  const int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    char* reserved = mmap(NULL, kPages * kPage, protection, flags, fd, 0);
    EXPECT(reserved != MAP_FAILED);
    hash = burn(hash, 100000);
    usleep(5000);
    EXPECT(mprotect(reserved + kPage, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
    volatile uint64_t* word = (volatile uint64_t*)(void*)(reserved + kPage + 8);
    const uint64_t before = *word;
    EXPECT(before == (fd < 0 ? 0 : round - 1));
    *word = round;
    hash = burn(hash, 10000);
    EXPECT(*word == round);
    EXPECT(munmap(reserved, kPages * kPage) == 0);
  }
}

int main(void) {
  use(PROT_NONE, -1);
  use(PROT_READ, -1);
  const int fds[] = {memfd_create("sys_shared", MFD_CLOEXEC),
                     open("sys_shared.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600)};
  for (int i = 0; i < 2; ++i) {
    EXPECT(fds[i] >= 0 && ftruncate(fds[i], kPages * kPage) == 0);
    use(i == 0 ? PROT_NONE : PROT_READ, fds[i]);
    close(fds[i]);
  }
  printf("%016llx\n", (unsigned long long)hash);
  return 0;
}
