// SPDX-License-Identifier: MIT
//
// Two libraries opened and closed in turns. The dynamic linker puts the second where the first
// was, so the same addresses hold other functions each time.
#include <dlfcn.h>
#include <libgen.h>

#include "jit.h"

static uint64_t visit(const char* path, int round, uint64_t hash) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  EXPECT(library != NULL);
  JitFunction step = (JitFunction)(uintptr_t)dlsym(library, "colour_step");
  const char* (*name)(void) = (const char* (*)(void))(uintptr_t)dlsym(library, "colour_name");
  EXPECT(step != NULL && name != NULL);
  int red = strcmp(name(), "red") == 0;
  EXPECT(red || strcmp(name(), "green") == 0);
  for (int i = 0; i < 200; ++i) {
    int result = step(i);
    EXPECT(result == (red ? i * 3 + 1 : (i ^ 0x55) - 7));
    hash = mix(hash, (uint64_t)(uint32_t)result + (uint64_t)round);
  }
  EXPECT(dlclose(library) == 0);
  return hash;
}

int main(void) {
  char self[4096];
  char path[2][4200];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  EXPECT(length > 0);
  self[length] = '\0';
  const char* folder = dirname(self);
  snprintf(path[0], sizeof(path[0]), "%s/../guest_libs/libcolour_red.so", folder);
  snprintf(path[1], sizeof(path[1]), "%s/../guest_libs/libcolour_green.so", folder);
  uint64_t hash = 1;
  for (int round = 0; round < 40; ++round) hash = visit(path[round % 2], round, hash);
  printf("in turns %016lx\n", hash);
  // Both at once, closed in the order of opening.
  void* held = dlopen(path[0], RTLD_NOW | RTLD_LOCAL);
  EXPECT(held != NULL);
  hash = visit(path[1], 1, hash);
  hash = visit(path[0], 2, hash);
  EXPECT(dlclose(held) == 0);
  hash = visit(path[1], 3, hash);
  printf("both %016lx\n", hash);
  return 0;
}
