// SPDX-License-Identifier: MIT
//
// Code patched by another thread while it runs: one aligned 8-byte store replaces a jump, as
// tracing and inline caches do. A caller may see the old or the new target, nothing else; once it
// has seen the flag that was set after the patch (and serialised), only the new one.
#include <pthread.h>
#include <stdatomic.h>

#include "jit.h"

enum { kTargets = 4, kVersions = 100, kFreeFlips = 2000 };

static unsigned char* code;
static _Atomic int published, seen, stop;

// jmp rel32 from the entry at the start of the page to target `i`, padded with nops to 8 bytes.
static void patch_entry(int i) {
  unsigned char image[8];
  uint64_t word;
  unsigned char* end = jit_put32(JIT_PUT(image, "\xE9"), (uint32_t)(512 + i * 64 - 5));
  memset(end, 0x90, 3);
  memcpy(&word, image, sizeof(word));
  __atomic_store_n((uint64_t*)(void*)code, word, __ATOMIC_SEQ_CST);
}

static void* patch_in_step(void* unused) {
  (void)unused;
  for (int version = 1; version <= kVersions; ++version) {
    patch_entry(version % kTargets);
    published = version;
    while (seen != version) sched_yield();
  }
  return NULL;
}

static void* patch_freely(void* unused) {
  (void)unused;
  for (int i = 0; i < kFreeFlips && !stop; ++i) {
    patch_entry(i % kTargets);
    sched_yield();
  }
  return NULL;
}

int main(void) {
  code = jit_map(kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  for (int i = 0; i < kTargets; ++i) jit_write(code + 512 + i * 64, 0, (uint32_t)(1000 + i));
  patch_entry(0);

  pthread_t thread;
  uint64_t hash = 1;
  EXPECT(pthread_create(&thread, NULL, patch_in_step, NULL) == 0);
  for (int version = 1; version <= kVersions; ++version) {
    while (published != version) {
      int result = jit_call(code, 0) - 1000;
      EXPECT(result >= 0 && result < kTargets);
    }
    jit_serialise();
    for (int i = 0; i < 20; ++i) {
      int result = jit_call(code, 0);
      EXPECT(result == 1000 + version % kTargets);
      hash = mix(hash, (uint64_t)result);
    }
    seen = version;
  }
  EXPECT(pthread_join(thread, NULL) == 0);
  printf("in step %016lx\n", hash);

  EXPECT(pthread_create(&thread, NULL, patch_freely, NULL) == 0);
  for (int i = 0; i < 20000; ++i) {
    int result = jit_call(code, i) - 1000;
    EXPECT(result >= 0 && result < kTargets);
  }
  stop = 1;
  EXPECT(pthread_join(thread, NULL) == 0);
  patch_entry(2);
  EXPECT(jit_call(code, 0) == 1002);
  printf("freely: every call reached a target\n");
  return 0;
}
