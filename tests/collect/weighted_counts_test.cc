// SPDX-License-Identifier: MIT
//
// Collectors count each sample for as much as its weight says: all tables are the sum of the single
// samples' tables, each times its weight.
#include "collect/edges/edge_collector.h"
#include "collect/paths/path_collector.h"
#include "sampled.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <tuple>

namespace shadowprof::collect {
namespace {

using test::collected;
using test::Samples;
using Ref = profile::CodeRef;
// A kind of count, and what it is of.
using Row = std::tuple<int, Ref, Ref, std::vector<Ref>>;

template <typename Each>
void each_count(const profile::Profile& p, Each each) {
  const profile::Tables& t = p.tables;
  for (const auto& b : t.blocks) each(Row{0, b.at, {}, {}}, b.count);
  for (const auto& e : t.edges) each(Row{10 + static_cast<int>(e.kind), e.from, e.to, {}}, e.count);
  for (const auto& c : t.calls) {
    each(Row{20 + c.indirect, c.site, c.callee, {}}, c.count);
    each(Row{22 + c.indirect, c.site, c.callee, {}}, c.inclusive);
  }
  for (const auto& e : t.entries) {
    each(Row{30, e.at, {}, {}}, e.invocations);
    each(Row{31, e.at, {}, {}}, e.inclusive);
  }
  for (const auto& path : t.paths) each(Row{40, {}, {}, path.blocks}, path.count);
}

profile::Profile counted_edges_of(const trace::BlockTable& table, const Samples& samples,
                                  const SampleWeights* weights) {
  EdgeCollectorOptions options{.calls = true, .errors = true, .contexts = true};
  options.weights = weights;
  return collected(EdgeCollector(table, options), samples);
}

profile::Profile paths_of(const trace::BlockTable& table, const Samples& samples,
                          const SampleWeights* weights) {
  PathCollectorOptions options;
  options.errors = true;
  options.weights = weights;
  return collected(PathCollector(table, options), samples);
}

// Samples of two phases, of different lengths, at different distances. Some executions of a program
// end soon, or never come to the end of a path; what has next to nothing of all counts is no group
// of its own.
struct Sampled {
  static constexpr uint64_t kInstructions = 1000;
  static constexpr uint64_t kPaths = 100;

  test::Program program;
  test::Engine engine{program, {64, 4, 0}};
  Samples samples;
  SampleWeights weights;

  explicit Sampled(uint64_t seed) : program(seed) {
    for (uint64_t i = 1; i <= 40 && samples.size() < 6; i++) {
      auto words = engine.trace(test::execute(program, seed + i, 3000 * (samples.size() + 1), 0));
      const uint64_t own =
          counted_edges_of(engine.table, {words}, nullptr).coverage.instructions_profiled;
      const uint64_t paths = paths_of(engine.table, {words}, nullptr).coverage.paths.executions;
      if (own < kInstructions || paths < kPaths) continue;
      samples.push_back(std::move(words));
      const auto n = static_cast<double>(samples.size());
      trace::CodeShares code{};
      code[n <= 3 ? 0 : 1] = own;
      weights.recorded(weights.taken(1, 100 * std::log(n + 1)), own, code);
    }
    weights.conclude();
  }
};

template <typename Make>
size_t compare(const Sampled& sampled, Make make) {
  std::map<Row, double> expected;
  std::map<Row, double> plain;
  for (size_t i = 0; i < sampled.samples.size(); i++) {
    const double weight = sampled.weights.of(i + 1, i + 1);
    each_count(make(sampled.engine.table, Samples{sampled.samples[i]}, nullptr),
               [&](const Row& row, uint64_t count) {
                 expected[row] += weight * static_cast<double>(count);
                 plain[row] += static_cast<double>(count);
               });
  }
  // A block that is entered in the middle in one sample, and in another not, has other rows there.
  each_count(make(sampled.engine.table, sampled.samples, nullptr),
             [&](const Row& row, uint64_t count) {
               if (static_cast<double>(count) != plain[row]) expected.erase(row);
             });
  size_t changed = 0;
  each_count(make(sampled.engine.table, sampled.samples, &sampled.weights),
             [&](const Row& row, uint64_t count) {
               // Each counter is rounded, and some are too small to be known of each sample.
               CAPTURE(std::get<0>(row));
               if (!expected.contains(row)) return;
               const double slack = 8 + 0.01 * expected[row];
               CHECK(std::abs(static_cast<double>(count) - expected[row]) <= slack);
               changed += std::abs(plain[row] - expected[row]) > 2 * slack ? 1 : 0;
               expected.erase(row);
             });
  for (const auto& [row, count] : expected) CHECK(count <= 8);
  return changed;
}

TEST_CASE("tables are the sum of the samples' tables by their weights") {
  size_t edges = 0, paths = 0;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    CAPTURE(seed);
    const Sampled sampled(seed);
    edges += compare(sampled, counted_edges_of);
    paths += compare(sampled, paths_of);
  }
  CHECK(edges > 100);
  CHECK(paths > 10);
}

TEST_CASE("a weighted profile is consistent") {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    CAPTURE(seed);
    const Sampled sampled(seed);
    profile::Profile p = counted_edges_of(sampled.engine.table, sampled.samples, &sampled.weights);
    const profile::Profile plain = counted_edges_of(sampled.engine.table, sampled.samples, nullptr);
    const auto all = static_cast<double>(plain.coverage.instructions_profiled);
    CHECK(static_cast<double>(p.coverage.instructions_profiled) ==
          doctest::Approx(all).epsilon(0.01));
    uint64_t in_contexts = 0;
    for (const auto& c : p.tables.contexts) in_contexts += c.self;
    CHECK(in_contexts == p.coverage.instructions_profiled);
    p.coverage.instructions_total = p.coverage.instructions_profiled;
    p.coverage.estimated = true;
    const Status sound = profile::check_consistency(p);
    CHECK_MESSAGE(sound, (sound ? "" : sound.error().message));
  }
}

TEST_CASE("equal weights change nothing") {
  const Sampled sampled(4);
  SampleWeights none;
  none.conclude();
  const profile::Profile p = counted_edges_of(sampled.engine.table, sampled.samples, &none);
  std::map<Row, uint64_t> plain;
  each_count(counted_edges_of(sampled.engine.table, sampled.samples, nullptr),
             [&](const Row& row, uint64_t count) { plain[row] = count; });
  size_t rows = 0;
  each_count(p, [&](const Row& row, uint64_t count) {
    CHECK(plain[row] == count);
    rows++;
  });
  CHECK(rows == plain.size());
}

}  // namespace
}  // namespace shadowprof::collect
