// SPDX-License-Identifier: MIT
//
// Memory whose faults, moves and ends another thread is told of (userfaultfd(2)): who changes it
// waits in the kernel until that thread has heard of it.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "guest.h"

enum { kPage = 4096, kPages = 8, kRounds = 10, kEndsOfRound = 3 };

static int faults = -1;
// What the other thread has heard of.
static volatile int filled, removed, moved, ended;

static void fill(uint64_t address) {
  static unsigned char page[kPage] __attribute__((aligned(kPage)));
  memset(page, 0x5a, sizeof page);
  struct uffdio_copy copy = {
      .dst = address & ~(uint64_t)(kPage - 1), .src = (uint64_t)(uintptr_t)page, .len = kPage};
  EXPECT(ioctl(faults, UFFDIO_COPY, &copy) == 0);
  filled = filled + 1;
}

static void* listen_to_faults(void* unused) {
  struct uffd_msg message;
  while (read(faults, &message, sizeof message) == sizeof message) {
    switch (message.event) {
      case UFFD_EVENT_PAGEFAULT: fill(message.arg.pagefault.address); break;
      case UFFD_EVENT_REMOVE: removed = removed + 1; break;
      case UFFD_EVENT_REMAP: moved = moved + 1; break;
      case UFFD_EVENT_UNMAP: ended = ended + 1; break;
      default: EXPECT(message.event == UFFD_EVENT_PAGEFAULT);  // no other is asked for
    }
  }
  return unused;
}

static unsigned char* map_area(void) {
  unsigned char* area = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(area != MAP_FAILED);
  struct uffdio_register request = {
      .range = {.start = (uint64_t)(uintptr_t)area, .len = kPages * kPage},
      .mode = UFFDIO_REGISTER_MODE_MISSING};
  EXPECT(ioctl(faults, UFFDIO_REGISTER, &request) == 0);
  return area;
}

static void change(unsigned char* area, int round) {
  area[3] = (unsigned char)round;
  area[5 * kPage] = 1;
  EXPECT(area[4] == 0x5a && area[5 * kPage + 1] == 0x5a);
  EXPECT(madvise(area, kPage, MADV_DONTNEED) == 0);
  EXPECT(area[3] == 0x5a);
  EXPECT(mprotect(area + kPage, kPage, PROT_READ) == 0);
  unsigned char* place = mmap(NULL, 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(place != MAP_FAILED);
  EXPECT(mremap(area + 4 * kPage, 2 * kPage, 2 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, place) ==
         place);
  EXPECT(place[kPage] == 1 && place[0] == 0x5a);
  EXPECT(munmap(place, 2 * kPage) == 0);
  EXPECT(munmap(area, kPages * kPage) == 0);
}

int main(void) {
  faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API,
                           .features = UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP |
                                       UFFD_FEATURE_EVENT_UNMAP};
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) {
    puts("no userfaultfd here");
    return 77;
  }
  pthread_t listener;
  EXPECT(pthread_create(&listener, NULL, listen_to_faults, NULL) == 0);
  for (int round = 0; round < kRounds; ++round) change(map_area(), round);
  // The kernel goes on with what it has told of before the listener has counted it.
  for (int tries = 0; ended < kEndsOfRound * kRounds && tries < 5000; ++tries) usleep(1000);
  printf("%d filled, %d removed, %d moved, %d ended\n", filled, removed, moved, ended);
  return 0;
}
