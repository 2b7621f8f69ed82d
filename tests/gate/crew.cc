// SPDX-License-Identifier: MIT
//
// Two threads that run the same function, below callers of their own, for about as long as the
// argument says in milliseconds of processor time.
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

uint64_t wanted_ns;

inline uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15;
  return x ^ (x >> 29);
}

uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

[[gnu::noinline]] uint64_t grind(uint64_t x, int rounds) {
  for (int i = 0; i < rounds; i++) x = mix(x + static_cast<uint64_t>(i));
  return x;
}

[[gnu::noinline]] uint64_t lead(uint64_t x) {
  for (int i = 0; i < 500'000; i++) x = mix(x) + 1;
  return grind(x, 500'000) + 1;
}

[[gnu::noinline]] uint64_t follow(uint64_t x) {
  for (int i = 0; i < 500'000; i++) x = mix(x) + 2;
  return grind(x, 1'000'000) + 2;
}

void *worker(void *result) {
  pthread_setname_np(pthread_self(), "worker 1");
  uint64_t x = 7;
  while (thread_ns() < wanted_ns) x = follow(x);
  *static_cast<uint64_t *>(result) = x;
  return nullptr;
}

}  // namespace

int main(int argc, char **argv) {
  wanted_ns = static_cast<uint64_t>(argc > 1 ? atoi(argv[1]) : 1000) * 1'000'000;
  pthread_t thread;
  uint64_t x = 1, y = 0;
  if (pthread_create(&thread, nullptr, worker, &y) != 0) return 1;
  while (thread_ns() < wanted_ns) x = lead(x);
  pthread_join(thread, nullptr);
  return x + y == 0;
}
