// SPDX-License-Identifier: MIT
//
// Accuracy measures against examples worked out by hand.
#include "profile/accuracy.h"

#include <doctest/doctest.h>

namespace {

using namespace shadowprof::profile;

constexpr uint32_t kApp = 0;

Profile with_modules(std::vector<std::string> build_ids) {
  Profile p;
  for (std::string& id : build_ids) p.modules.push_back({"/bin/" + id, id, 0, 0, 0});
  p.coverage.instructions_total = 1000;
  p.coverage.instructions_profiled = 1000;
  return p;
}

PathRow path(uint64_t count, std::vector<uint64_t> offsets, uint32_t module = kApp) {
  PathRow row;
  row.count = count;
  for (uint64_t o : offsets) row.blocks.push_back({module, o});
  return row;
}

ValueRow value(uint64_t offset, uint64_t count, std::vector<ValueCount> top) {
  ValueRow row;
  row.at = {kApp, offset};
  row.figures.count = count;
  row.figures.top = std::move(top);
  return row;
}

}  // namespace

TEST_CASE("a profile agrees with itself") {
  Profile p = with_modules({"aa"});
  p.tables.paths = {path(5, {1, 2}), path(3, {4})};
  p.tables.edges = {{{kApp, 1}, {kApp, 2}, EdgeKind::taken, 7}};
  p.tables.values = {value(1, 10, {{7, 9}, {8, 1}})};
  p.tables.calls = {{{kApp, 1}, {kApp, 9}, false, 4, 0}};
  Function f;
  f.at = {kApp, 0};
  f.self = 1000;
  p.functions = {f};
  const Accuracy a = accuracy_of(p, p);
  CHECK(a.paths == 1);
  CHECK(a.edges == 1);
  CHECK(a.values() == 1);
  CHECK(a.call_pairs == 1);
  CHECK(a.methods == 1);
  CHECK(a.coverage == 1);
}

TEST_CASE("what is missing in either profile has no measure") {
  Profile full = with_modules({"aa"});
  full.tables.edges = {{{kApp, 1}, {kApp, 2}, EdgeKind::taken, 7}};
  full.tables.paths = {path(5, {1, 2})};
  Profile other = with_modules({"aa"});
  for (const Accuracy& a : {accuracy_of(full, other), accuracy_of(other, full)}) {
    CHECK(!a.paths);
    CHECK(!a.edges);
    CHECK(!a.values());
    CHECK(!a.diff_top);
    CHECK(!a.call_pairs);
    CHECK(!a.methods);
  }
}

TEST_CASE("paths are measured by Wall's weight matching") {
  // 40 distinct paths: the hottest 5 % are two, with flows 600 and 300. The sample has the first
  // and a third one on top: 600 / 900.
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  perfect.tables.paths = {path(600, {1}), path(300, {2}), path(100, {3})};
  for (uint64_t i = 0; i < 37; i++) perfect.tables.paths.push_back(path(1, {100 + i}));
  sampled.tables.paths = {path(30, {1}), path(20, {3}), path(10, {2})};
  CHECK(*accuracy_of(perfect, sampled).paths == doctest::Approx(600.0 / 900));
}

TEST_CASE("at least one path is compared") {
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  perfect.tables.paths = {path(6, {1}), path(3, {2})};
  sampled.tables.paths = {path(1, {2})};
  CHECK(*accuracy_of(perfect, sampled).paths == 0);
}

TEST_CASE("paths that the file left out count as distinct") {
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  perfect.tables.paths = {path(6, {1}), path(3, {2})};
  perfect.coverage.paths.distinct = 40;  // two are compared
  sampled.tables.paths = {path(5, {2}), path(1, {1})};
  CHECK(*accuracy_of(perfect, sampled).paths == 1);
}

TEST_CASE("edges lose half of the difference of relative frequencies") {
  // 0.5 0.3 0.2 against 0.25 0.75 0: |0.25| + |0.45| + |0.2| = 0.9.
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  const auto edge = [](uint64_t to, uint64_t count) {
    return Edge{{kApp, 1}, {kApp, to}, EdgeKind::indirect_jump, count};
  };
  perfect.tables.edges = {edge(1, 50), edge(2, 30), edge(3, 20)};
  sampled.tables.edges = {edge(1, 1), edge(2, 3)};
  CHECK(*accuracy_of(perfect, sampled).edges == doctest::Approx(0.55));
  sampled.tables.edges = {edge(9, 4)};
  CHECK(*accuracy_of(perfect, sampled).edges == doctest::Approx(0));
}

TEST_CASE("values are measured by the share of the perfect profile's top value") {
  // Weights 100 and 300; 0.9 against 0.5, and 0.6 against nothing, as its top value was not seen.
  // The third instruction is in one profile only. (100 x 0.4 + 300 x 0.6) / 400 = 0.55.
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  perfect.tables.values = {value(1, 100, {{7, 90}, {8, 10}}), value(2, 300, {{5, 180}, {6, 120}}),
                           value(3, 9000, {{1, 9000}})};
  sampled.tables.values = {value(1, 10, {{7, 5}, {9, 5}}), value(2, 4, {{6, 4}})};
  const Accuracy a = accuracy_of(perfect, sampled);
  CHECK(*a.diff_top == doctest::Approx(0.55));
  CHECK(*a.values() == doctest::Approx(0.45));
}

TEST_CASE("code that was elsewhere is noticed") {
  Profile perfect = with_modules({"aa", "bb"}), sampled = with_modules({"bb", "aa"});
  perfect.modules[0].address = sampled.modules[1].address = 0x1000;
  perfect.modules[1].address = sampled.modules[0].address = 0x2000;
  CHECK_FALSE(accuracy_of(perfect, sampled).other_addresses);
  sampled.modules[0].address = 0x3000;
  CHECK(accuracy_of(perfect, sampled).other_addresses);
}

TEST_CASE("overlap is of the members that make up nine tenths") {
  // Shares 0.6, 0.3, 0.1: the first two are members. Sampled shares 0.5, 0.1, 0.4:
  // (0.5 + 0.1) / 0.9.
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  const auto call = [](uint64_t site, uint64_t count) {
    return CallPair{{kApp, site}, {kApp, 99}, false, count, 0};
  };
  perfect.tables.calls = {call(1, 60), call(2, 30), call(3, 10)};
  sampled.tables.calls = {call(1, 5), call(2, 1), call(3, 4)};
  CHECK(*accuracy_of(perfect, sampled).call_pairs == doctest::Approx(0.6 / 0.9));
}

TEST_CASE("code is matched by build-id, whatever the order of modules") {
  Profile perfect = with_modules({"aa", "bb"}), sampled = with_modules({"bb", "aa"});
  perfect.tables.paths = {path(6, {1}, 0)};
  sampled.tables.paths = {path(6, {1}, 1)};
  CHECK(*accuracy_of(perfect, sampled).paths == 1);
  sampled.tables.paths = {path(6, {1}, 0)};
  CHECK(*accuracy_of(perfect, sampled).paths == 0);
}

TEST_CASE("coverage is what was profiled of what the perfect run executed") {
  Profile perfect = with_modules({"aa"}), sampled = with_modules({"aa"});
  sampled.coverage.instructions_profiled = 2;
  CHECK(*accuracy_of(perfect, sampled).coverage == doctest::Approx(0.002));
}
