// SPDX-License-Identifier: MIT
//
// After fork, parent and child write different code to the same addresses; neither may see the
// other's. With a shared mapping both must.
#include <sys/wait.h>

#include "jit.h"

static void wait_for(pid_t child) {
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  const int everything = PROT_READ | PROT_WRITE | PROT_EXEC;
  unsigned char* own = jit_map(kPage, everything);
  unsigned char* shared = mmap(NULL, kPage, everything, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  uint64_t hash = 1;
  for (int round = 0; round < 10; ++round) {
    uint32_t constant = (uint32_t)round * 1000;
    jit_write(own, 1, constant);
    jit_write(shared, 4, constant);
    hash = mix(hash, jit_check(own, 1, constant, round));
    hash = mix(hash, jit_check(shared, 4, constant, round));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      jit_check(own, 1, constant, 3);
      jit_write(own, 3, constant + 1);
      jit_write(shared, 2, constant + 2);
      for (int i = 0; i < 100; ++i) jit_check(own, 3, constant + 1, i);
      for (int i = 0; i < 100; ++i) jit_check(shared, 2, constant + 2, i);
      _exit(0);
    }
    wait_for(child);
    for (int i = 0; i < 100; ++i) {
      hash = mix(hash, jit_check(own, 1, constant, i));
      hash = mix(hash, jit_check(shared, 2, constant + 2, i));
    }
  }
  printf("parents and children %016lx\n", hash);
  return 0;
}
