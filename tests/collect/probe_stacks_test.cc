// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "collect/probes/probe_stacks.h"
#include "collect/probes/probe_thread.h"

namespace {

using namespace shadowprof;
using collect::ProbedRun;
using collect::ProbeStack;
using collect::ProbeStacks;
using collect::ProbeThread;
using trace::RunExit;

using Calls = std::vector<uint64_t>;

ProbeStack stack_of(const Calls& calls) {
  ProbeStack stack;
  for (const uint64_t call : calls) stack.add(call);
  return stack;
}

// 99 alone: not even the innermost caller is known.
Calls stack_in(const ProbeThread& thread, size_t most = 8) {
  ProbeStack stack;
  if (!thread.stack(most, stack)) return {99};
  return {stack.all().begin(), stack.all().end()};
}

ProbedRun call_that_returns_to(uint64_t place) {
  ProbedRun run;
  run.exit = RunExit::call;
  run.returns_to = place;
  return run;
}

ProbedRun ending(RunExit exit) {
  ProbedRun run;
  run.exit = exit;
  return run;
}

void return_to(ProbeThread& thread, uint64_t place) {
  thread.depart(ending(RunExit::ret));
  thread.arrive(place);
}

}  // namespace

TEST_CASE("each stack has one number, however many there are") {
  ProbeStacks stacks;
  std::mt19937_64 random(3);
  std::vector<Calls> all;
  for (size_t i = 0; i < 5'000; i++) {
    Calls calls(i % 9);
    for (uint64_t& call : calls) call = 1 + random() % 4;
    all.push_back(calls);
  }
  std::vector<uint32_t> numbers;
  for (const Calls& calls : all) numbers.push_back(*stacks.number_of(stack_of(calls)));
  for (size_t i = 0; i < all.size(); i++) {
    CHECK(*stacks.number_of(stack_of(all[i])) == numbers[i]);
    const auto kept = stacks.calls(numbers[i]);
    CHECK(Calls(kept.begin(), kept.end()) == all[i]);
  }
}

TEST_CASE("there is no number where there is no room for a stack") {
  ProbeStacks stacks(2);
  CHECK(stacks.number_of(stack_of({1})) == 0);
  CHECK(stacks.number_of(stack_of({1, 2})) == 1);
  CHECK_FALSE(stacks.number_of(stack_of({2, 1})));
  CHECK(stacks.number_of(stack_of({1})) == 0);
}

TEST_CASE("a stack is the innermost callers, and says where more are not known") {
  ProbeThread thread;
  CHECK(stack_in(thread) == Calls{99});
  thread.depart(call_that_returns_to(10));
  CHECK(stack_in(thread) == Calls{10, ProbeStacks::kNoMore});
  thread.depart(call_that_returns_to(20));
  CHECK(stack_in(thread, 2) == Calls{20, 10});
  CHECK(stack_in(thread, 1) == Calls{20});
  return_to(thread, 20);
  CHECK(stack_in(thread) == Calls{10, ProbeStacks::kNoMore});
}

TEST_CASE("a thread that began here has a whole stack until a return leads elsewhere") {
  ProbeThread thread;
  thread.begin();
  CHECK(stack_in(thread).empty());
  thread.depart(call_that_returns_to(10));
  thread.depart(call_that_returns_to(20));
  CHECK(stack_in(thread) == Calls{20, 10});
  return_to(thread, 10);  // over the one that is in between
  CHECK(stack_in(thread).empty());
  return_to(thread, 77);
  CHECK(stack_in(thread) == Calls{99});
  thread.depart(call_that_returns_to(30));
  CHECK(stack_in(thread) == Calls{30, ProbeStacks::kNoMore});
}

TEST_CASE("a signal handler's stack begins with it, and then the old one goes on") {
  ProbeThread thread;
  thread.begin();
  thread.depart(call_that_returns_to(10));
  thread.deliver_signal();
  CHECK(stack_in(thread).empty());
  thread.depart(call_that_returns_to(20));
  CHECK(stack_in(thread) == Calls{20});
  thread.return_from_signal();
  CHECK(stack_in(thread) == Calls{10});
  thread.return_from_signal();  // from one whose beginning was not seen
  CHECK(stack_in(thread) == Calls{99});
}

TEST_CASE("a sample begins with the stack that it says, whole or not") {
  using trace::StackStart;
  const auto begun = [](trace::Word flags) {
    std::vector<trace::Word> record = {0, 1, 0, flags};
    for (const uint64_t call : {uint64_t{20}, 15 | StackStart::kExactCaller, uint64_t{10}}) {
      record.push_back(static_cast<trace::Word>(call));
      record.push_back(static_cast<trace::Word>(call >> 32));
    }
    record[0] =
        trace::special_word(trace::SpecialKind::sample_start, static_cast<uint32_t>(record.size()));
    ProbeThread thread;
    thread.start_sample(trace::SampleStart(record));
    return stack_in(thread);
  };
  CHECK(begun(StackStart::kWhole) == Calls{20, 10});
  CHECK(begun(0) == Calls{20, 10, ProbeStacks::kNoMore});
  ProbeThread thread;
  thread.begin();
  const auto record = trace::sample_start(1);
  thread.start_sample(trace::SampleStart(record));
  CHECK(stack_in(thread) == Calls{99});
}
