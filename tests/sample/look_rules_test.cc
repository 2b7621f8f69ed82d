// SPDX-License-Identifier: MIT
//
// Looks at programs that are simulated: what is counted is what their threads did with a processor.
#include "sample/look_rules.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <vector>

using namespace shadowprof;
using namespace shadowprof::sample;

namespace {

// --max-overhead 1 %.
constexpr double kBudgetShare = 0.002;
constexpr double kStop_s = 20e-6;
constexpr char kAsleep = '-';

// What a thread does at a moment: the name of a place, or kAsleep.
using Thread = std::function<char(double)>;
using Times = std::map<char, double>;

// A thread that does the same again and again: places with the seconds that each takes.
Thread in_rounds(std::vector<std::pair<char, double>> parts) {
  double round_s = 0;
  for (const auto& [place, seconds] : parts) round_s += seconds;
  return [=](double at) {
    double left = std::fmod(at, round_s);
    for (const auto& [place, seconds] : parts) {
      if (left < seconds) return place;
      left -= seconds;
    }
    return parts.back().first;
  };
}

struct Looked {
  Times times;
  uint64_t looks = 0;  // that found a thread
  double paid_s = 0;
};

Looked look_at(const std::vector<Thread>& threads, double duration_s, uint64_t seed) {
  Looked looked;
  LookMoments moments(kBudgetShare, seed);
  moments.begin(0);
  while (moments.next() < duration_s) {
    const double now = moments.next();
    const double stands_for_s = moments.take(now);
    bool found = false;
    for (const Thread& thread : threads) {
      const char place = thread(now);
      if (place == kAsleep) continue;
      looked.times[place] += stands_for_s;
      looked.looks++;
      found = true;
    }
    const double price_s = found ? kStop_s : 0;
    looked.paid_s += price_s;
    moments.paid(price_s, 0, now);
  }
  return looked;
}

// The mean of many runs of the program.
Looked mean_of_runs(const std::vector<Thread>& threads, double duration_s, int runs) {
  Looked sum;
  for (int seed = 1; seed <= runs; seed++) {
    // Not in step with the program's rounds at the beginning either.
    const double shift_s = 0.0371 * seed;
    std::vector<Thread> shifted;
    for (const Thread& thread : threads)
      shifted.push_back([=](double at) { return thread(at + shift_s); });
    const Looked looked = look_at(shifted, duration_s, static_cast<uint64_t>(seed));
    for (const auto& [place, seconds] : looked.times) sum.times[place] += seconds / runs;
    sum.looks += looked.looks;
    sum.paid_s += looked.paid_s / runs;
  }
  return sum;
}

double share(const Times& times, char place) {
  double all = 0;
  for (const auto& [name, seconds] : times) all += seconds;
  return times.at(place) / all;
}

// That of the mean of so many looks, in all.
double four_errors(double p, uint64_t looks) {
  return 4 * std::sqrt(p * (1 - p) / static_cast<double>(looks));
}

}  // namespace

TEST_CASE("a place has its share of the processor time, however the program sleeps") {
  // Each runs for much less than the time between two looks, in turns of fixed order.
  const Thread program = in_rounds({{'a', 0.001}, {'b', 0.003}, {kAsleep, 0.05}});
  const Looked looked = mean_of_runs({program}, 20, 50);
  CHECK(std::abs(share(looked.times, 'a') - 0.25) < four_errors(0.25, looked.looks));
  CHECK(std::abs(looked.times.at('a') + looked.times.at('b') - 20 * 0.004 / 0.054) < 0.1);
}

TEST_CASE("a program in step with the looks is not always met at the same place") {
  const LookMoments moments(kBudgetShare, 1);
  const double period_s = moments.period_s();
  for (const double round_s : {period_s, period_s / 2, 2 * period_s}) {
    const Thread program = in_rounds({{'a', 0.2 * round_s}, {'b', 0.8 * round_s}});
    const Looked looked = look_at({program}, 40, 7);
    CHECK(std::abs(share(looked.times, 'a') - 0.2) < four_errors(0.2, looked.looks));
  }
}

TEST_CASE("phases are weighed by how long they take, not by how often they are looked at") {
  // The first one hardly runs, so that looks are frequent in it.
  const Thread sleepy = in_rounds({{'a', 0.0005}, {kAsleep, 0.0095}});
  const Thread program = [&](double at) { return at < 10 ? sleepy(at) : 'b'; };
  double a = 0;
  constexpr int kRuns = 40;
  for (uint64_t seed = 1; seed <= kRuns; seed++)
    a += look_at({program}, 20, seed).times['a'] / kRuns;
  CHECK(std::abs(a - 0.5) < 0.1);
}

TEST_CASE("long phases are known better than by chance") {
  const Thread program = [](double at) { return at < 7 ? 'a' : 'b'; };
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const Looked looked = look_at({program}, 20, seed);
    CHECK(std::abs(share(looked.times, 'a') - 0.35) < 0.005);
  }
}

TEST_CASE("each of two threads has its own time") {
  const Thread one = in_rounds({{'a', 0.002}, {kAsleep, 0.006}});
  const Thread other = in_rounds({{'b', 0.0005}, {'c', 0.0007}});
  const Looked looked = mean_of_runs({one, other}, 20, 20);
  CHECK(std::abs(looked.times.at('a') - 5) < 0.25);
  CHECK(std::abs(looked.times.at('b') + looked.times.at('c') - 20) < 0.1);
  CHECK(std::abs(share(looked.times, 'b') - 20.0 * 5 / 12 / 25) < four_errors(0.33, looked.looks));
}

TEST_CASE("looks take no more than their part of the budget") {
  const Looked busy = look_at({in_rounds({{'a', 1}})}, 100, 3);
  CHECK(busy.paid_s < 1.1 * kBudgetShare * 100);
  CHECK(busy.paid_s > 0.8 * kBudgetShare * 100);
  // Who sleeps most of the time is looked at more often.
  const Looked sleepy = look_at({in_rounds({{'a', 0.001}, {kAsleep, 0.003}})}, 100, 3);
  CHECK(sleepy.looks > busy.looks / 4 * 3 / 2);
  CHECK(sleepy.paid_s < 1.1 * kBudgetShare * 100);
}

TEST_CASE("looks that take us long are rare") {
  LookMoments moments(1, 1);
  moments.begin(0);
  for (int i = 0; i < 1000; i++) moments.paid(0, 0.002, moments.next());
  CHECK(moments.period_s() > 0.15);
}

TEST_CASE("a thread that waited for a processor had none") {
  const kernel::ScheduleTimes before{5'000'000, 1'000'000, 10};
  const kernel::ScheduleTimes has_waited{5'000'100, 3'000'000, 11};
  const kernel::ScheduleTimes was_preempted{5'000'100, 1'090'000, 11};
  constexpr double kSince_s = 100e-6;
  CHECK(had_processor({before, {5'010'000, 1'000'000, 10}, kSince_s}));  // it ran on
  CHECK(!had_processor({before, has_waited, kSince_s}));
  CHECK(!had_processor({before, has_waited, kSince_s, true}));
  CHECK(!had_processor({before, has_waited, kSince_s, false, true}));
  CHECK(!had_processor({before, was_preempted, kSince_s}));
  CHECK(had_processor({before, was_preempted, kSince_s, true}));
  CHECK(had_processor({before, was_preempted, kSince_s, false, true}));
  CHECK(had_processor({}));  // the kernel keeps no account
}

TEST_CASE("the kernel's work is told from the program's by where a thread stops") {
  using machine::Registers;
  const std::vector<uint8_t> load = {0x48, 0x8b, 0x07};
  const std::vector<uint8_t> stores = {0xf3, 0x48, 0xab};
  const std::vector<uint8_t> move = {0x89, 0xc8};
  const std::vector<uint8_t> call = {0x0f, 0x05};
  Registers registers{};
  registers.orig_rax = machine::kNoSyscall;
  registers.rdi = 0x1010;
  registers.rsi = 0x2020;
  CHECK(!kernel_worked(registers, {move, load}));
  CHECK(kernel_worked(registers, {call, load}));  // it was about to leave
  CHECK(!kernel_worked(registers, {}));
  registers.eflags = machine::flags::kResume;
  CHECK(kernel_worked(registers, {move, load}));
  CHECK(kernel_worked(registers, {}));
  CHECK(!kernel_worked(registers, {move, stores}));  // an interrupt within it
  registers.rdi = 0x3000;
  CHECK(kernel_worked(registers, {move, stores}));
  registers.eflags = 0;
  registers.orig_rax = 1;
  CHECK(kernel_worked(registers, {move, load}));
}
