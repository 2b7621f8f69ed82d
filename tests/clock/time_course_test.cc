// SPDX-License-Identifier: MIT
#include "clock/time_course.h"

#include <doctest/doctest.h>

using namespace shadowprof;
using namespace shadowprof::clock;

namespace {

constexpr uint64_t kBegun_ns = 5'000'000'000;
constexpr uint64_t kSlice_ns = 1000 * TimeCourse::kShortestSlice_us;
const TimeCourse::Thread kFirst{Tid(1), Tid(1)}, kSecond{Tid(1), Tid(2)};

uint64_t sum_of(const TimeCourse& course) {
  uint64_t sum_ns = 0;
  for (const auto& [key, spent] : course.rows()) sum_ns += spent.user_ns + spent.kernel_ns;
  return sum_ns;
}

}  // namespace

TEST_CASE("ticks of one moment, thread and place are one row") {
  TimeCourse course(kBegun_ns);
  course.add(kBegun_ns - 1, kFirst, {0, 16}, {100, 0});  // from before it began
  course.add(kBegun_ns + kSlice_ns - 1, kFirst, {0, 16}, {0, 10});
  course.add(kBegun_ns + kSlice_ns, kFirst, {0, 16}, {1, 0});
  course.add(kBegun_ns, kSecond, {0, 16}, {2, 0});
  course.add(kBegun_ns, kSecond, {0, 32}, {3, 0});
  REQUIRE(course.rows().size() == 4);
  const auto& [key, spent] = *course.rows().begin();
  CHECK(key.slice == 0);
  CHECK(key.thread == kFirst);
  CHECK(spent.user_ns == 100);
  CHECK(spent.kernel_ns == 10);
  course.scale(kFirst, 2);
  CHECK(sum_of(course) == 2 * 111 + 5);
}

TEST_CASE("slices become longer as time goes on, and no tick is lost") {
  TimeCourse course(kBegun_ns);
  constexpr uint64_t kTicks = 10 * TimeCourse::kMostSlices;
  for (uint64_t i = 0; i < kTicks; i++)
    course.add(kBegun_ns + i * kSlice_ns, kFirst, {0, 16}, {1, 0});
  CHECK(course.slice_us() == 16 * TimeCourse::kShortestSlice_us);
  CHECK(course.rows().size() == kTicks / 16);
  CHECK(sum_of(course) == kTicks);
  for (const auto& [key, spent] : course.rows()) CHECK(spent.user_ns == 16);
}

TEST_CASE("rows are limited: slices become longer first, then new places are left out") {
  TimeCourse course(kBegun_ns);
  for (uint64_t i = 0; i < 4 * TimeCourse::kMostRows; i++) {
    const uint64_t at_ns = kBegun_ns + i % TimeCourse::kMostSlices * kSlice_ns;
    course.add(at_ns, kFirst, {0, i}, {1, 0});
  }
  CHECK(course.rows().size() == TimeCourse::kMostRows);
  CHECK(course.left_out() == 3 * TimeCourse::kMostRows);
  CHECK(course.slice_us() > TimeCourse::kShortestSlice_us);
  CHECK(course.slice_us() <= TimeCourse::kShortestSlice_us * TimeCourse::kMostSlices);
}
