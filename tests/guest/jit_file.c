// SPDX-License-Identifier: MIT
//
// Code that no instruction of the program writes: the kernel puts it into executable memory, by
// read, readv, pread, a pipe, process_vm_writev, and through /proc/self/mem, which writes even
// where the page is read-execute.
#include <fcntl.h>
#include <sys/uio.h>

#include "jit.h"

enum Way { kRead, kReadv, kPread, kPipe, kVmWrite, kProcMem, kWays };
static const char* const kNames[kWays] = {
    "read", "readv", "pread", "pipe", "process_vm_writev", "/proc/self/mem"};

static void transfer(enum Way way, unsigned char* code, const unsigned char* image, size_t size) {
  ssize_t moved = -1;
  int file = -1;
  int pipes[2];
  struct iovec parts[2] = {{code, 3}, {code + 3, size - 3}};
  struct iovec source = {(void*)(uintptr_t)image, size};
  switch (way) {
    case kRead:
    case kReadv:
    case kPread:
      file = memfd_create("code", MFD_CLOEXEC);
      EXPECT(file >= 0 && write(file, image, size) == (ssize_t)size);
      EXPECT(lseek(file, 0, SEEK_SET) == 0);
      if (way == kRead) moved = read(file, code, size);
      if (way == kReadv) moved = readv(file, parts, 2);
      if (way == kPread) moved = pread(file, code, size, 0);
      EXPECT(close(file) == 0);
      break;
    case kPipe:
      EXPECT(pipe(pipes) == 0 && write(pipes[1], image, size) == (ssize_t)size);
      moved = read(pipes[0], code, size);
      EXPECT(close(pipes[0]) == 0 && close(pipes[1]) == 0);
      break;
    case kVmWrite:
      moved = process_vm_writev(getpid(), &source, 1, parts, 2, 0);
      if (moved < 0 && (errno == EPERM || errno == ENOSYS)) exit(77);
      break;
    default:
      file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
      if (file < 0) exit(77);
      moved = pwrite(file, image, size, (off_t)(uintptr_t)code);
      EXPECT(close(file) == 0);
  }
  EXPECT(moved == (ssize_t)size);
}

int main(void) {
  unsigned char* code = jit_map(2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  for (int way = 0; way < kWays; ++way) {
    uint64_t hash = 1;
    if (way == kProcMem) EXPECT(mprotect(code, 2 * kPage, PROT_READ | PROT_EXEC) == 0);
    for (int round = 0; round < 60; ++round) {
      int shape = round % kJitShapes;
      unsigned char* at = code + (round % 3 == 0 ? kPage - 4 : 256);
      unsigned char image[kJitMaxBytes];
      size_t size = (size_t)(jit_write(image, shape, (uint32_t)round) - image);
      transfer((enum Way)way, at, image, size);
      jit_serialise();
      for (int i = 0; i < 20; ++i) hash = mix(hash, jit_check(at, shape, (uint32_t)round, i));
    }
    printf("%s %016lx\n", kNames[way], hash);
  }
  return 0;
}
