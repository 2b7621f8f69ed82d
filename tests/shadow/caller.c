// SPDX-License-Identifier: MIT
//
// caller FILE [SECONDS]: makes system calls all the time, whose answers follow from those before: a
// file is read on where it was, memory that was mapped is there, a file that it makes is there
// until it removes it, and what was written is seen. What is not so is seen by the name of what is
// called. Writes each round's number to the standard output.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kWords = 5000, kMapped = 64 << 10 };

static volatile unsigned long differences;

__attribute__((noinline)) void answers_differ(void) {
  differences++;
}

static uint32_t word_of(uint32_t place) {
  return place * 2654435761u;
}

static int make_file(const char *path) {
  uint32_t words[kWords];
  for (uint32_t i = 0; i < kWords; i++) words[i] = word_of(i);
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, words, sizeof words) != sizeof words) exit(1);
  lseek(fd, 0, SEEK_SET);
  return fd;
}

// Reads seven words on, through one of two descriptors that share their offset.
static uint32_t read_on(int fd, uint32_t place) {
  uint32_t words[7];
  const ssize_t got = read(fd, words, sizeof words);
  if (got < 0 || got % 4 != 0) answers_differ();
  for (ssize_t i = 0; i < got / 4; i++) {
    if (words[i] != word_of(place + (uint32_t)i)) answers_differ();
  }
  place += (uint32_t)(got / 4);
  if (got == sizeof words) return place;
  if (place != kWords || lseek(fd, 0, SEEK_CUR) != 4 * kWords) answers_differ();
  lseek(fd, 0, SEEK_SET);
  return 0;
}

static void map_and_forget(uint32_t round) {
  uint32_t* memory =
      mmap(NULL, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  if (memory[100] != 0) answers_differ();
  for (uint32_t i = 0; i < kMapped / 4; i += 512) memory[i] = i + round;
  memory = mremap(memory, kMapped, 2 * kMapped, MREMAP_MAYMOVE);
  if (memory == MAP_FAILED) abort();
  if (memory[512] != 512 + round) answers_differ();
  munmap(memory, 2 * kMapped);
}

// As sorts do: a file that nobody else knows, written, closed, read and removed by its name.
static void spill(const char *path, uint32_t round) {
  char name[4096];
  uint32_t words[64], back[128];
  struct stat status;
  snprintf(name, sizeof name, "%s.XXXXXX", path);
  const int fd = mkstemp(name);
  for (uint32_t i = 0; i < 64; i++) words[i] = word_of(round + i);
  if (fd < 0 || write(fd, words, sizeof words) != sizeof words) answers_differ();
  close(fd);
  const int again = open(name, O_RDONLY);
  if (again != fd || read(again, back, sizeof back) != sizeof words) answers_differ();
  if (memcmp(words, back, sizeof words) != 0) answers_differ();
  if (stat(name, &status) != 0 || status.st_size != sizeof words || status.st_nlink != 1)
    answers_differ();
  if (unlink(name) != 0 || access(name, F_OK) == 0) answers_differ();
  if (fstat(again, &status) != 0 || status.st_nlink != 0) answers_differ();
  close(again);
}

// A third of a millisecond or so.
__attribute__((noinline)) uint32_t compute(uint32_t x) {
  for (int i = 0; i < 300000; i++) x = x * 1664525u + 1013904223u;
  return x;
}

int main(int argc, char **argv) {
  if (argc < 2) return 1;
  const double seconds = argc > 2 ? atof(argv[2]) : 2;
  const int fd = make_file(argv[1]);
  const int same = dup(fd);
  const pid_t self = getpid();
  const time_t start = time(NULL);
  uint32_t place = 0, x = 1;
  for (uint32_t round = 0; difftime(time(NULL), start) < seconds; round++) {
    place = read_on(round % 2 != 0 ? fd : same, place);
    map_and_forget(round);
    if (round % 8 == 0) spill(argv[1], round);
    if (getpid() != self) answers_differ();
    x = compute(x | 1);
    char line[16];
    const int length = snprintf(line, sizeof line, "%u\n", round);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) answers_differ();
  }
  return differences == 0 && x != 0 ? 0 : 2;
}
