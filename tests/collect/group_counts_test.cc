// SPDX-License-Identifier: MIT
//
// How counts differ between samples, and the errors that collectors make of it.
#include "collect/edges/edge_collector.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "collect/paths/path_collector.h"
#include "collect/weights/group_counts.h"
#include "sampled.h"

namespace shadowprof::collect {
namespace {

using test::collected;
using test::Samples;
using trace::Word;

TEST_CASE(
    "groups hold what counts grew by, and add up to all of it however many samples there are") {
  for (const uint64_t samples : {2u, 63u, 64u, 65u, 1000u}) {
    CAPTURE(samples);
    std::vector<uint64_t> counts(3, 0);
    GroupCounts groups;
    for (uint64_t s = 0; s < samples; s++) {
      counts[0] += 1000;
      counts[1] += s % 2 == 0 ? 500 : 0;
      groups.began(s + 1);
      if (groups.due()) groups.look(counts.size(), [&](size_t i) { return counts[i]; });
    }
    groups.look(counts.size(), [&](size_t i) { return counts[i]; });
    groups.close();
    CHECK(groups.groups().size() >= std::min<uint64_t>(samples, GroupCounts::kMostGroups / 2));
    CHECK(groups.groups().size() <= GroupCounts::kMostGroups);
    std::vector<uint64_t> sums(3, 0);
    for (const auto& group : groups.groups())
      for (const auto& [index, count] : group.entries) sums[index] += count;
    CHECK(sums[0] == 1000 * samples);
    CHECK(sums[1] == 500 * ((samples + 1) / 2));
    CHECK(sums[2] == 0);
  }
}

TEST_CASE("brief samples are in groups of their own") {
  std::vector<uint64_t> counts(2, 0);
  GroupCounts groups;
  const auto look = [&] { groups.look(counts.size(), [&](size_t i) { return counts[i]; }); };
  for (uint64_t i = 1; i <= 200; i++) {
    const bool brief = i % 5 != 0;
    const uint64_t number = brief ? i | trace::kBriefSample : i / 5;
    if (groups.is_other_kind(number)) look();
    groups.began(number);
    counts[brief ? 1 : 0] += brief ? 10 : 100'000;
    if (groups.due()) look();
  }
  look();
  groups.close();
  CHECK(groups.groups().size() > GroupCounts::kMostGroups);
  uint64_t sums[2] = {0, 0};
  for (const auto& group : groups.groups()) {
    REQUIRE(group.entries.size() == 1);
    CHECK(trace::is_brief(group.first) == (group.entries[0].index == 1));
    CHECK(trace::is_brief(group.last) == trace::is_brief(group.first));
    sums[group.entries[0].index] += group.entries[0].count;
  }
  CHECK(sums[0] == 40 * 100'000);
  CHECK(sums[1] == 160 * 10);
}

TEST_CASE("samples of a replica that have one number are one observation") {
  GroupCounts groups;
  uint64_t count = 0;
  const auto look = [&] { groups.look(1, [&](size_t) { return count; }); };
  for (const uint64_t number : {1, 1, 1, 2, 2, 5}) {
    if (groups.is_next(number) && groups.due()) look();
    groups.began(number);
    count += 100;
  }
  if (groups.due()) look();  // the replica has ended
  CHECK(!groups.is_next(6));
  groups.close();
  REQUIRE(groups.groups().size() == 3);
  CHECK(groups.groups()[0].total == 300);
  CHECK(groups.groups()[1].total == 200);
  CHECK(groups.groups()[2].last == 5);
}

TEST_CASE("groups know counts by the numbers that they have now") {
  GroupCounts groups;
  std::vector<uint64_t> counts(3, 0);
  for (uint64_t i = 1; i <= 4; i++) {
    groups.began(i);
    for (size_t k = 0; k < counts.size(); k++) counts[k] += 100 * (k + 1);
    if (groups.due()) groups.look(counts.size(), [&](size_t k) { return counts[k]; });
    if (i != 2) continue;
    // The second is gone, and the others change places.
    groups.renumber(std::vector<uint32_t>{1, GroupCounts::kGone, 0});
    counts = {counts[2], counts[0]};
  }
  groups.close();
  REQUIRE(groups.groups().size() == 4);
  for (const GroupCounts::Group& group : groups.groups()) {
    const bool is_before = group.first <= 2;
    CHECK(group.total == (is_before ? 600 : 300));
    REQUIRE(group.entries.size() == 2);
    CHECK(group.entries[0].index == 0);
    CHECK(group.entries[0].count == (is_before ? 300 : 100));
    CHECK(group.entries[1].count == (is_before ? 100 : 200));
  }
}

TEST_CASE("what the last thread of a replica leaves is part of its group") {
  std::vector<uint64_t> counts(1, 0);
  GroupCounts groups;
  // 0: another thread of the sample before.
  const std::pair<uint64_t, uint64_t> parts[] = {
      {1, 0}, {2, 100'000}, {0, 3}, {3, 100'000}, {0, 1}};
  for (const auto& [number, more] : parts) {
    if (number != 0) groups.began(number);
    counts[0] += more;
    if (groups.due()) groups.look(1, [&](size_t i) { return counts[i]; });
  }
  groups.close();
  REQUIRE(groups.groups().size() == 2);
  CHECK(groups.groups()[0].total == 100'003);
  CHECK(groups.groups()[0].first == 1);
  CHECK(groups.groups()[0].last == 2);
  CHECK(groups.groups()[1].total == 100'001);
}

TEST_CASE("groups of different sizes are worth fewer groups") {
  CHECK(sizes_of({}).worth() == 0);
  CHECK(sizes_of({{{}, 5}, {{}, 5}, {{}, 5}}).worth() == 3);
  CHECK(sizes_of({{{}, 100}, {{}, 1}, {{}, 1}}).worth() == 1);
}

profile::Profile edges_of(const trace::BlockTable& table, const Samples& samples) {
  return collected(EdgeCollector(table, {true, true}), samples);
}

TEST_CASE("samples that are alike leave no doubt, whatever is counted") {
  const test::Program program(3);
  test::Engine engine(program, {64, 4, 0});
  const std::vector<Word> words = engine.trace(test::execute(program, 3, 20'000, 0));
  const profile::Profile p = edges_of(engine.table, {words, words, words, words});
  CHECK(p.confidence.groups == 4);
  CHECK(p.groups.size() == 4);
  REQUIRE(!p.tables.edges.empty());
  for (const auto& e : p.tables.edges) CHECK(e.error == 0);
  for (const auto& c : p.tables.calls) CHECK(c.error == 0);
  CHECK(collected(EdgeCollector(engine.table), {words, words}).confidence.groups == 0);
}

void compare_with_single_samples(const test::Program& program, size_t& uncertain) {
  constexpr size_t kSamples = 8;
  test::Engine engine(program, {64, 4, 0});
  Samples samples;
  for (uint64_t seed = 1; seed <= kSamples; seed++)
    samples.push_back(engine.trace(test::execute(program, seed, 20'000, 0)));
  const profile::Profile p = edges_of(engine.table, samples);
  if (p.confidence.groups < 2) return;
  using Key = std::tuple<profile::CodeRef, profile::CodeRef, profile::EdgeKind>;
  std::map<Key, profile::ErrorSum> sums;
  profile::GroupSizes sizes;
  for (const auto& words : samples) {
    const profile::Profile one = edges_of(engine.table, {words});
    profile::GroupSize of_sample;
    for (const auto& e : one.tables.edges) of_sample.counts += static_cast<double>(e.count);
    for (const auto& e : one.tables.edges)
      sums[{e.from, e.to, e.kind}].add(static_cast<double>(e.count), of_sample);
    sizes.add(of_sample);
  }
  for (const auto& e : p.tables.edges) {
    const uint64_t expected = sums[{e.from, e.to, e.kind}].error(
        p.confidence.groups, sizes, static_cast<double>(e.count) / sizes.all());
    // Rounded, and without counts too small to be kept.
    const double off = std::abs(static_cast<double>(e.error) - static_cast<double>(expected));
    CHECK(off <= 5 + 0.05 * static_cast<double>(expected));
    uncertain += e.error > 5 ? 1 : 0;
  }
  PathCollectorOptions options;
  options.errors = true;
  for (const auto& path : collected(PathCollector(engine.table, options), samples).tables.paths)
    CHECK(path.error >= 1);
}

TEST_CASE("errors of edges are those of counts taken sample by sample") {
  size_t uncertain = 0;
  for (uint64_t seed = 1; seed <= 12; seed++) {
    CAPTURE(seed);
    compare_with_single_samples(test::Program(seed), uncertain);
  }
  CHECK(uncertain > 10);
}

}  // namespace
}  // namespace shadowprof::collect
