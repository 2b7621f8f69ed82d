// SPDX-License-Identifier: MIT
#include "probe/idle_core.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "probe/own_cores.h"

namespace shadowprof::probe {
namespace {

using Clock = std::chrono::steady_clock;

TEST_CASE("where as many threads compute as there are cores none is idle") {
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < OwnCores().all().size(); i++)
    threads.emplace_back([&is_over] {
      while (!is_over) {
      }
    });
  const Tid self(::getpid());
  const auto end = Clock::now() + std::chrono::seconds(10);
  bool found = true;
  while (found && Clock::now() < end) found = may_have_idle_core(self);
  CHECK_FALSE(found);
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shadowprof::probe
