// SPDX-License-Identifier: MIT
#include "report/stack_course.h"

#include <doctest/doctest.h>

namespace shadowprof {
namespace {

using report::StackMoment;
using report::ThreadStack;

profile::Function function_at(uint64_t offset) {
  profile::Function f;
  f.at = {0, offset};
  f.size = 0x100;
  return f;
}

ThreadStack stack_at(uint64_t offset, uint64_t amount, bool kernel = false) {
  ThreadStack stack;
  stack.at = {0, offset};
  stack.amount = amount;
  stack.kernel = kernel;
  return stack;
}

bool is_at(const StackMoment& m, const ThreadStack& stack, uint64_t at_ns, uint64_t amount) {
  return m.stack == &stack && m.at_ns == at_ns && m.amount == amount;
}

}  // namespace

TEST_CASE("a stack is where its function was, in the slices that it had") {
  profile::Profile p;
  p.modules.emplace_back();
  p.functions = {function_at(0), function_at(0x100)};
  p.threads = {{1, 1, "other"}, {2, 1, "this"}};
  p.time.slice_us = 1;
  p.tables.course = {{0, 0, {0, 0}, 500, 0},
                     {0, 1, {0, 0}, 60, 0},
                     {2, 1, {0, 0}, 40, 5},
                     {2, 1, {0, 0x100}, 50, 0},
                     {3, 1, {0, 0x5000}, 7, 0}};
  std::vector<ThreadStack> stacks = {stack_at(8, 30), stack_at(0x10, 70), stack_at(8, 5, true),
                                     stack_at(0x108, 52), stack_at(0x6000, 7)};
  for (ThreadStack& stack : stacks) stack.thread = 1;
  const auto moments = report::moments_of(stacks, p);
  REQUIRE(moments.size() == 7);
  CHECK(is_at(moments[0], stacks[0], 0, 30));
  CHECK(is_at(moments[1], stacks[1], 30, 30));
  CHECK(is_at(moments[2], stacks[1], 2000, 40));
  CHECK(is_at(moments[3], stacks[2], 2040, 5));
  CHECK(is_at(moments[4], stacks[3], 2045, 50));
  CHECK(is_at(moments[5], stacks[4], 3000, 7));  // no function has it
  CHECK(is_at(moments[6], stacks[3], 3007, 2));  // of which the course says nothing
}

TEST_CASE("without a course one stack follows the other") {
  profile::Profile p;
  const std::vector<ThreadStack> stacks = {stack_at(8, 30), stack_at(0x10, 70)};
  const auto moments = report::moments_of(stacks, p);
  REQUIRE(moments.size() == 2);
  CHECK(is_at(moments[1], stacks[1], 30, 70));
  CHECK(report::moments_of({}, p).empty());
}

}  // namespace shadowprof
