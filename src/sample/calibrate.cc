// SPDX-License-Identifier: MIT
#include "sample/calibrate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "profile/random.h"

namespace shadowprof::sample {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLoads = 3000;
constexpr size_t kMostBytes = size_t{256} << 20;

// Cycles of one load between two stamps, fenced as in translated code.
uint32_t time_load(const volatile char* address) {
  uint32_t before, after;
  asm volatile(
      "lfence\n\t"
      "rdtsc\n\t"
      "movl %%eax, %0\n\t"
      "lfence\n\t"
      "movb (%2), %%al\n\t"
      "lfence\n\t"
      "rdtsc\n\t"
      "movl %%eax, %1\n\t"
      : "=&r"(before), "=&r"(after)
      : "r"(address)
      : "rax", "rdx", "memory");
  return after - before;
}

uint32_t time_nothing() {
  uint32_t before, after;
  asm volatile(
      "lfence\n\t"
      "rdtsc\n\t"
      "movl %%eax, %0\n\t"
      "lfence\n\t"
      "lfence\n\t"
      "rdtsc\n\t"
      "movl %%eax, %1\n\t"
      : "=&r"(before), "=&r"(after)
      :
      : "rax", "rdx", "memory");
  return after - before;
}

// Mean of the times from one share of them to another, in order. One stamp is as coarse as the
// clock, their mean is not.
double mean_between(std::vector<uint32_t> times, double from, double to) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return static_cast<size_t>(share * static_cast<double>(times.size()));
  };
  const double sum = std::accumulate(times.begin() + at(from), times.begin() + at(to), 0.0);
  return sum / static_cast<double>(at(to) - at(from));
}

// Of small sets nearly all, for what tells the first caches apart is less than a step of the clock;
// what interrupts us is left out.
double nearly_all(std::vector<uint32_t> times) {
  return mean_between(std::move(times), 0, 0.9);
}

// Of large sets the nearer middle: a quarter may lie in nearer caches, and others drive part of a
// shared cache out, often much of it.
double middle(std::vector<uint32_t> times) {
  return mean_between(std::move(times), 0.3, 0.5);
}

std::vector<uint32_t> random_loads(const char* memory, size_t bytes, profile::Random& random) {
  for (size_t i = 0; i < 2 * bytes; i += kLine)
    *static_cast<const volatile char*>(memory + i % bytes);
  std::vector<uint32_t> times;
  for (size_t i = 0; i < kLoads; i++)
    times.push_back(time_load(memory + random.next() % (bytes / kLine) * kLine));
  return times;
}

size_t cache_bytes(int name, size_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? static_cast<size_t>(bytes) : otherwise;
}

}  // namespace

Result<profile::LatencyCalibration> calibrate_latency() {
  const size_t l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  const size_t l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10);
  const size_t l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 16 << 20);
  const size_t all = std::min(kMostBytes, 4 * l3);
  void* memory = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail_errno(errno, "cannot calibrate latencies with {} bytes", all);
  std::memset(memory, 1, all);  // pages of their own
  const char* bytes = static_cast<const char*>(memory);

  profile::Random random(1);
  profile::LatencyCalibration c;
  std::vector<uint32_t> empty;
  for (size_t i = 0; i < kLoads; i++) empty.push_back(time_nothing());
  uint32_t resolution = UINT32_MAX;
  for (size_t i = 1; i < empty.size(); i++) {
    const uint32_t step = std::max(empty[i], empty[i - 1]) - std::min(empty[i], empty[i - 1]);
    if (step != 0) resolution = std::min(resolution, step);
  }
  c.resolution = resolution == UINT32_MAX ? 1 : resolution;
  c.overhead = nearly_all(empty);
  const size_t sets[] = {l1 / 2, std::min(l2 / 2, 8 * l1), std::min(l3 / 4, 8 * l2), all};
  double before = 0;
  for (size_t i = 0; i < std::size(sets); i++) {
    auto times = random_loads(bytes, sets[i], random);
    const double typical = i < 2 ? nearly_all(std::move(times)) : middle(std::move(times));
    before = c.typical[i] = std::max(typical - c.overhead, before);
  }
  ::munmap(memory, all);
  return c;
}

}  // namespace shadowprof::sample
