// SPDX-License-Identifier: MIT
//
// Counting samples on streams of known composition. Seeds are fixed, bounds are five standard
// errors or more, so a failure is a defect and not bad luck.
#include "profile/hotlists/value_hotlist.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace {

using namespace shadowprof::profile;

constexpr auto kSample = HotlistKind::counting_sample;
constexpr uint64_t kLength = 20'000;

using Stream = std::function<uint64_t(uint64_t position, Random&)>;

struct Outcome {
  ValueHotlist hotlist;
  std::map<uint64_t, uint64_t> truth;
};

Outcome run(const Stream& stream, uint64_t seed, uint32_t capacity) {
  Outcome o;
  Random values(seed * 7919), coins(seed);
  for (uint64_t i = 0; i < kLength; i++) {
    const uint64_t v = stream(i, values);
    o.truth[v]++;
    o.hotlist.add(v, 1, kSample, capacity, coins);
  }
  return o;
}

uint64_t zipf(uint64_t, Random& random) {
  return static_cast<uint64_t>(std::pow(1000.0, random.unit()));
}
uint64_t uniform(uint64_t, Random& random) {
  return random.next() % 2000;
}
// All rare values first, then the hot one among new ones: tables that keep what came first fail.
uint64_t adversarial(uint64_t i, Random& random) {
  if (i < kLength / 2) return 1'000'000 + i;
  return random.next() % 2 == 0 ? 42 : 2'000'000 + i;
}
// What is hot changes half-way.
uint64_t shifting(uint64_t i, Random& random) {
  const uint64_t hot = i < kLength / 2 ? 1 : 2;
  return random.next() % 10 < 6 ? hot : 100 + random.next() % 500;
}

}  // namespace

TEST_CASE("counts are exact while no more values than entries occur") {
  ValueHotlist list;
  Random coins(1);
  for (uint64_t i = 0; i < 1600; i++) list.add(i % 16, 1 + i % 3, kSample, 16, coins);
  CHECK(list.exact());
  CHECK(list.distinct() == 16);
  uint64_t sum = 0;
  for (const ValueCount& v : list.top(10'000)) sum += v.count;
  CHECK(sum == 1600 / 3 * 6 + 1);
  CHECK(list.threshold() == 1);
}

TEST_CASE("estimates of a counting sample are unbiased on every kind of stream") {
  const std::pair<Stream, uint64_t> cases[] = {{zipf, 1},         {zipf, 5},     {uniform, 77},
                                               {adversarial, 42}, {shifting, 1}, {shifting, 2}};
  for (const auto& one : cases) {
    const Stream& stream = one.first;
    const uint64_t value = one.second;
    double error = 0, squares = 0;
    constexpr int kSeeds = 200;
    for (uint64_t seed = 1; seed <= kSeeds; seed++) {
      Outcome o = run(stream, seed, 16);
      const double e = o.hotlist.estimate(value) - static_cast<double>(o.truth[value]);
      error += e / kSeeds;
      squares += e * e / kSeeds;
    }
    const double standard_error = std::sqrt((squares - error * error) / kSeeds);
    INFO("value " << value << " error " << error << " standard error " << standard_error);
    CHECK(std::abs(error) <= 5 * standard_error + 1e-9);
  }
}

TEST_CASE("a value that makes up half of a stream is found, with its share") {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    for (const Stream& stream : {Stream(adversarial), Stream(shifting)}) {
      Outcome o = run(stream, seed, 16);
      const auto top = o.hotlist.top(kLength);
      const auto true_top = std::max_element(o.truth.begin(), o.truth.end(),
                                             [](auto& a, auto& b) { return a.second < b.second; });
      // A value enters after `threshold` occurrences on average, exponentially distributed.
      const double bound = 12 * o.hotlist.threshold();
      uint64_t counted = 0;
      for (const ValueCount& v : top)
        if (v.value == true_top->first) counted = v.count;
      INFO("seed " << seed << " threshold " << o.hotlist.threshold());
      CHECK(std::abs(static_cast<double>(counted) - static_cast<double>(true_top->second)) <=
            bound);
    }
  }
}

TEST_CASE("estimates together are no more than what there was") {
  const Stream few = [](uint64_t, Random& random) { return random.next() % 17; };
  for (uint64_t seed = 1; seed <= 50; seed++) {
    for (const Stream& stream : {few, Stream(zipf), Stream(uniform), Stream(shifting)}) {
      uint64_t sum = 0;
      for (const ValueCount& v : run(stream, seed, 16).hotlist.top(kLength)) sum += v.count;
      CHECK(sum <= kLength);
    }
  }
}

TEST_CASE("no value of a uniform stream looks hot") {
  for (uint64_t seed = 1; seed <= 50; seed++)
    CHECK(run(uniform, seed, 16).hotlist.top(kLength)[0].count < kLength / 10);
}

TEST_CASE("the table never holds more than its capacity") {
  for (uint32_t capacity : {2u, 3u, 16u, 100u}) {
    CHECK(run(uniform, 3, capacity).hotlist.size() <= capacity);
    CHECK(run(zipf, 3, capacity).hotlist.size() <= capacity);
  }
}

TEST_CASE("the number of distinct values is estimated within a few standard errors") {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const Outcome o = run(uniform, seed, 16);
    const double ratio =
        static_cast<double>(o.hotlist.distinct()) / static_cast<double>(o.truth.size());
    CHECK(ratio > 0.45);
    CHECK(ratio < 1.65);
  }
}

TEST_CASE("several occurrences at once are as good as one after the other") {
  double once = 0, batched = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    ValueHotlist a, b;
    Random coins_a(seed), coins_b(seed + 1000);
    for (uint64_t i = 0; i < 400; i++) {
      const uint64_t v = i % 40 == 0 ? 7 : 1000 + i;
      for (int k = 0; k < 5; k++) a.add(v, 1, kSample, 8, coins_a);
      b.add(v, 5, kSample, 8, coins_b);
    }
    once += a.estimate(7) / 300;
    batched += b.estimate(7) / 300;
  }
  CHECK(std::abs(once - 50) < 15);
  CHECK(std::abs(batched - 50) < 15);
}

TEST_CASE("a top-n table keeps its hot half when it is full") {
  ValueHotlist list;
  Random coins(1);
  for (uint64_t i = 0; i < 10'000; i++)
    list.add(i % 2 == 0 ? 9 : 100'000 + i, 1, HotlistKind::tnv, ValueHotlist::kTnvCapacity, coins);
  CHECK(list.top(10'000)[0].value == 9);
  CHECK(list.top(10'000)[0].count == 5000);
  CHECK(list.size() <= ValueHotlist::kTnvCapacity);
}
