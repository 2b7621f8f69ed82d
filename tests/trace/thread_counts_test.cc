// SPDX-License-Identifier: MIT
#include "trace/thread_counts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace shadowprof::trace {
namespace {

uint64_t sum_of(const ThreadCount& thread) {
  uint64_t sum = 0;
  for (const RunCount& run : thread.runs) sum += run.count;
  return sum;
}

const ThreadCount* find(const std::vector<ThreadCount>& threads, const char* name) {
  for (const ThreadCount& thread : threads)
    if (thread.name == name) return &thread;
  return nullptr;
}

TEST_CASE("a thread has its own counts, by run, and the last name that it had") {
  ThreadCounts counts;
  counts.seen(Tid(7), Tid(7), "first");
  counts.seen(Tid(8), Tid(7), "worker");
  for (uint32_t i = 0; i < 10'000; i++) counts.add(Tid(7), RunId(i % 3), 2);
  counts.add(Tid(8), RunId(5), 1);
  counts.add(Tid(9), RunId(5), 1);  // nobody knows it
  counts.add_sample(Tid(8));
  counts.seen(Tid(7), Tid(7), "renamed");
  counts.seen(Tid(8), Tid(7), "");  // gone before it was asked
  const auto threads = counts.counts();
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].name == "renamed");
  REQUIRE(threads[0].runs.size() == 3);
  CHECK(threads[0].runs[0].count == 6668);
  CHECK(threads[1].name == "worker");
  CHECK(threads[1].samples == 1);
  CHECK(sum_of(threads[1]) == 1);
}

TEST_CASE("an id that comes again is another thread") {
  ThreadCounts counts;
  counts.seen(Tid(7), Tid(7), "one");
  counts.add(Tid(7), RunId(0), 3);
  counts.ended(Tid(7));
  counts.seen(Tid(7), Tid(7), "other");
  counts.add(Tid(7), RunId(0), 4);
  const auto threads = counts.counts();
  REQUIRE(threads.size() == 2);
  CHECK(sum_of(threads[0]) == 3);
  CHECK(sum_of(threads[1]) == 4);
}

TEST_CASE("of many threads those that have ended become one for each name") {
  ThreadCounts counts;
  counts.seen(Tid(1), Tid(1), "main");
  counts.add(Tid(1), RunId(0), 5);
  for (int32_t i = 2; i < 2000; i++) {
    counts.seen(Tid(i), Tid(1), i % 2 == 0 ? "even" : "odd");
    counts.add(Tid(i), RunId(1), 1);
    counts.ended(Tid(i));
  }
  const auto threads = counts.counts();
  CHECK(threads.size() <= kMostThreads);
  uint64_t sum = 0, even = 0;
  for (const ThreadCount& thread : threads) {
    sum += sum_of(thread);
    if (thread.name == "even") even += sum_of(thread);
  }
  CHECK(sum == 5 + 1998);
  CHECK(even == 999);
  CHECK(find(threads, "main")->thread == Tid(1));
}

TEST_CASE("where none has ended, new ones are counted together") {
  ThreadCounts counts;
  for (int32_t i = 1; i <= 600; i++) {
    counts.seen(Tid(i), Tid(1), fmt::format("t{}", i));
    counts.add(Tid(i), RunId(1), 1);
  }
  const auto threads = counts.counts();
  CHECK(threads.size() == kMostThreads);
  REQUIRE(find(threads, kOtherThreads) != nullptr);
  CHECK(sum_of(*find(threads, kOtherThreads)) == 600 - (kMostThreads - 1));
  CHECK(find(threads, kOtherThreads)->thread == Tid());
}

}  // namespace
}  // namespace shadowprof::trace
