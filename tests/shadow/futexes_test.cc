// SPDX-License-Identifier: MIT
//
// The memory of the futexes is our own.
#include "shadow/futexes.h"

#include <doctest/doctest.h>
#include <linux/futex.h>
#include <unistd.h>

#include <cerrno>

namespace shadowprof::shadow {
namespace {

struct Fixture {
  Fixture() {
    for (int i = 0; i < 4; i++) threads.push_back(std::make_unique<GuestThread>());
  }
  std::optional<Futexes::Answer> call(size_t thread, uint32_t* at, uint64_t operation,
                                      uint64_t value, uint64_t timeout = 0, uint32_t* to = nullptr,
                                      uint64_t last = 0) {
    const std::array<uint64_t, 6> args = {reinterpret_cast<uint64_t>(at), operation, value, timeout,
                                          reinterpret_cast<uint64_t>(to), last};
    return futexes.call(*threads[thread], args);
  }
  bool waits(size_t thread) const { return threads[thread]->state == GuestThread::State::waiting; }

  GuestThreads threads;
  ptrace::RemoteMemory memory{Tid(::getpid())};
  Futexes futexes{threads, memory};
  uint32_t word = 7;
  uint32_t other = 9;
};

TEST_CASE_FIXTURE(Fixture, "a wait sleeps only while the value is the expected one") {
  CHECK(call(0, &word, FUTEX_WAIT, 6)->value == -EAGAIN);
  CHECK_FALSE(waits(0));
  CHECK(call(0, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 7)->waits);
  CHECK(waits(0));
}

TEST_CASE_FIXTURE(Fixture, "a wake wakes as many as it says, at that address") {
  for (size_t i : {0, 1, 2}) CHECK(call(i, &word, FUTEX_WAIT, 7)->waits);
  CHECK(call(3, &other, FUTEX_WAKE, 10)->value == 0);
  CHECK(call(3, &word, FUTEX_WAKE, 2)->value == 2);
  CHECK_FALSE(waits(0));
  CHECK_FALSE(waits(1));
  CHECK(waits(2));
}

TEST_CASE_FIXTURE(Fixture, "bits select") {
  CHECK(call(0, &word, FUTEX_WAIT_BITSET, 7, 0, nullptr, 1)->waits);
  CHECK(call(1, &word, FUTEX_WAIT_BITSET, 7, 0, nullptr, 2)->waits);
  CHECK(call(3, &word, FUTEX_WAKE_BITSET, 10, 0, nullptr, 2)->value == 1);
  CHECK(waits(0));
  CHECK_FALSE(waits(1));
}

TEST_CASE_FIXTURE(Fixture, "requeued waiters wait elsewhere") {
  for (size_t i : {0, 1, 2}) CHECK(call(i, &word, FUTEX_WAIT, 7)->waits);
  CHECK(call(3, &word, FUTEX_CMP_REQUEUE, 1, 5, &other, 6)->value == -EAGAIN);
  CHECK(call(3, &word, FUTEX_CMP_REQUEUE, 1, 5, &other, 7)->value == 3);
  CHECK_FALSE(waits(0));
  CHECK(call(3, &word, FUTEX_WAKE, 10)->value == 0);
  CHECK(call(3, &other, FUTEX_WAKE, 10)->value == 2);
}

// As linux/futex.h of later systems has them.
constexpr long kWaitv = 449, kWake = 454, kWait = 455, kRequeue = 456;
constexpr uint64_t kSize = 2, kAll = UINT32_MAX;  // FUTEX2_SIZE_U32

TEST_CASE_FIXTURE(Fixture, "the futex calls of their own wait and wake as futex(2) does") {
  const auto make = [&](size_t thread, long nr, std::array<uint64_t, 6> args) {
    return futexes.call_of_its_own(*threads[thread], nr, args);
  };
  const auto at = [](const void* p) { return reinterpret_cast<uint64_t>(p); };
  CHECK(make(0, kWait, {at(&word), 6, kAll, kSize, 0, 0})->value == -EAGAIN);
  CHECK(make(0, kWait, {at(&word), 7, 1, kSize, 0, 0})->waits);
  CHECK(make(3, kWake, {at(&word), 2, 9, kSize, 0, 0})->value == 0);
  CHECK(make(3, kWake, {at(&word), 1, 9, kSize, 0, 0})->value == 1);
  CHECK_FALSE(waits(0));
  CHECK_FALSE(make(0, kWait, {at(&word), 7, 1, 1, 0, 0}));  // of 16 bits
  struct Listed {
    uint64_t value, address;
    uint32_t flags, reserved;
  } list[2] = {{7, at(&word), kSize, 0}, {9, at(&other), kSize, 0}};
  SUBCASE("any of several") {
    CHECK(make(0, kWaitv, {at(list), 2, 0, 0, 0, 0})->waits);
    CHECK(make(3, kWake, {at(&other), kAll, 9, kSize, 0, 0})->value == 1);
    CHECK_FALSE(waits(0));
    CHECK(threads[0]->registers.rax == 1);
    CHECK(make(3, kWake, {at(&word), kAll, 9, kSize, 0, 0})->value == 0);
    list[1].value = 8;
    CHECK(make(0, kWaitv, {at(list), 2, 0, 0, 0, 0})->value == -EAGAIN);
    CHECK(make(0, kWaitv, {at(list), 0, 0, 0, 0, 0})->value == -EINVAL);
  }
  SUBCASE("requeued") {
    for (size_t i : {0, 1}) CHECK(make(i, kWait, {at(&word), 7, kAll, kSize, 0, 0})->waits);
    CHECK(make(3, kRequeue, {at(list), 0, 1, 9, 0, 0})->value == 2);
    CHECK_FALSE(waits(0));
    CHECK(make(3, kWake, {at(&other), kAll, 9, kSize, 0, 0})->value == 1);
    list[0].value = 8;
    CHECK(make(3, kRequeue, {at(list), 0, 1, 9, 0, 0})->value == -EAGAIN);
  }
}

TEST_CASE_FIXTURE(Fixture, "unreadable memory and unknown operations are told apart") {
  const std::array<uint64_t, 6> args = {8, FUTEX_WAIT, 0, 0, 0, 0};
  CHECK(futexes.call(*threads[0], args)->value == -EFAULT);
  CHECK_FALSE(call(0, &word, FUTEX_LOCK_PI, 0));
}

}  // namespace
}  // namespace shadowprof::shadow
