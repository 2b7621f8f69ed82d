// SPDX-License-Identifier: MIT
#include "sample/switch_rate.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/elapsed.h"
#include "kernel/proc.h"

namespace shadowprof::sample {
namespace {

uint64_t runs_of_all(Tid process) {
  uint64_t runs = 0;
  for (const Tid thread : kernel::list_threads(process).value_or(std::vector<Tid>())) {
    if (const auto times = kernel::read_schedstat(thread)) runs += times->runs;
  }
  return runs;
}

TEST_CASE("all threads' switches are counted, by some of them where they are many") {
  const Tid self(::getpid());
  std::vector<std::jthread> threads;
  for (int i = 0; i < 40; i++) {
    threads.emplace_back([](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
  }
  SwitchRate rate;
  std::mt19937_64 random(1);
  CHECK(rate.look(random) == 0);
  rate.begin(self);
  const auto begun = std::chrono::steady_clock::now();
  CHECK(rate.look(random) == 0);
  const uint64_t before = runs_of_all(self);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double passed_s = seconds_since(begun);
  const double told_per_s = rate.look(random) / passed_s;
  const double really_per_s = static_cast<double>(runs_of_all(self) - before) / passed_s;
  CHECK(really_per_s > 40);
  CHECK(told_per_s > 0.5 * really_per_s);
  CHECK(told_per_s < 2 * really_per_s);
  rate.forget(self);
  (void)rate.look(random);
  CHECK(rate.look(random) == 0);
}

}  // namespace
}  // namespace shadowprof::sample
