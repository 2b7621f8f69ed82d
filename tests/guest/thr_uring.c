// SPDX-License-Identifier: MIT
//
// Threads of the kernel's among the program's own: one polls a ring of submissions, which takes a
// processor, and others do what was submitted. They are listed in /proc/self/task and can be
// traced, but never execute the program. Where there is no io_uring, it computes all the same.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "guest.h"

struct ring {
  int fd;
  unsigned *tail, *mask, *array, *done_head, *done_tail;
  struct io_uring_sqe* entries;
};

static int open_ring(struct ring* ring, unsigned flags) {
  struct io_uring_params p = {.flags = flags, .sq_thread_idle = 10000};
  ring->fd = (int)syscall(SYS_io_uring_setup, 8, &p);
  if (ring->fd < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP)) return 0;
  const size_t submissions = p.sq_off.array + p.sq_entries * sizeof(unsigned);
  const size_t completions = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
  const size_t size = submissions > completions ? submissions : completions;
  const int kReadWrite = PROT_READ | PROT_WRITE;
  char* memory = mmap(NULL, size, kReadWrite, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
  ring->entries = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), kReadWrite, MAP_SHARED,
                       ring->fd, IORING_OFF_SQES);
  EXPECT(memory != MAP_FAILED && ring->entries != MAP_FAILED);
  ring->tail = (unsigned*)(memory + p.sq_off.tail);
  ring->mask = (unsigned*)(memory + p.sq_off.ring_mask);
  ring->array = (unsigned*)(memory + p.sq_off.array);
  ring->done_head = (unsigned*)(memory + p.cq_off.head);
  ring->done_tail = (unsigned*)(memory + p.cq_off.tail);
  return 1;
}

// One operation, which a worker of the kernel does.
static unsigned operate(struct ring* ring) {
  const unsigned tail = *ring->tail, slot = tail & *ring->mask;
  ring->entries[slot] = (struct io_uring_sqe){.opcode = IORING_OP_NOP, .flags = IOSQE_ASYNC};
  ring->array[slot] = slot;
  __atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
  EXPECT(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
  const unsigned done = __atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE) - *ring->done_head;
  __atomic_store_n(ring->done_head, *ring->done_head + done, __ATOMIC_RELEASE);
  return done;
}

int main(void) {
  struct ring polled, worked;
  const int polls = open_ring(&polled, IORING_SETUP_SQPOLL);
  const int works = open_ring(&worked, 0);
  (void)polls;
  uint64_t hash = 1;
  unsigned done = 0;
  for (int i = 0; i < 200; i++) {
    done += works ? operate(&worked) : 1;
    hash = burn(hash, 100000);
    if (i % 4 == 0) usleep(5000);  // only the kernel's thread runs meanwhile
  }
  EXPECT(done == 200);
  printf("%016llx\n", (unsigned long long)hash);
  return 0;
}
