// SPDX-License-Identifier: MIT
#include "profile/compare/merge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "profile/evidence.h"
#include "profile/file/canonical.h"
#include "profile/file/json_file.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;

// The first line in which two files differ; "" if they do not.
std::string difference(const std::string& a, const std::string& b) {
  size_t line = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
    if (a[i] != b[i]) return a.substr(line, 400) + "\n" + b.substr(line, 400);
    if (a[i] == '\n') line = i + 1;
  }
  return a == b ? "" : "one is longer";
}

constexpr size_t kTop = 1000;  // every row, so that no source line is lost

Profile merged(const std::vector<std::pair<Profile, uint64_t>>& parts,
               const MergeLimits& limits = {}) {
  Merger merger(limits);
  for (const auto& [part, weight] : parts)
    REQUIRE(merger.add(part, "p" + std::to_string(part.run.pid), weight).has_value());
  Profile sum = merger.finish();
  sum.hotlists = merger.hotlists(sum, kTop);
  return sum;
}

// Profiles of runs of one program: other blocks each, but the same instructions and names.
class Runs {
 public:
  explicit Runs(uint64_t seed) : random_(seed) {
    for (auto& starts : boundaries_)
      for (uint64_t at = 0x1000; starts.size() < 60; at += below(7) + 1) starts.push_back(at);
  }

  Profile run() {
    Profile p;
    p.run.command = {"app", std::to_string(below(2))};
    p.run.pid = static_cast<int64_t>(below(1000));
    p.run.mode = "full";
    p.run.engine = "translator";
    p.run.started = fmt::format("2025-01-31T12:00:{:02}Z", below(60));
    p.run.duration_s = static_cast<double>(below(1'000'000)) / 7;
    p.run.options = {{"profile", "edge"}, {"follow", below(2) != 0 ? "true" : "false"}};
    if (below(2) != 0) p.run.exit = Exit{false, static_cast<int>(below(2))};
    p.modules = {{"/bin/app", "00ff", 0x400000 * (below(3) + 1), below(9), 8},
                 {"/lib/no_id.so", "", 0x7000, below(9), 8},
                 {"/lib/c.so", "aa", 0x9000, 5, 8}};
    if (below(2) != 0) std::swap(p.modules[0], p.modules[2]);
    p.confidence.exact = below(4) != 0;
    fill_tables(p);
    p.coverage.samples = 1;
    p.coverage.attributed = executed_instructions(p.tables.blocks, p.tables.interruptions);
    p.coverage.dropped = {{below(2) != 0 ? "lost" : "late", below(9)}};
    p.coverage.instructions_profiled = p.coverage.attributed + p.coverage.dropped_instructions();
    p.coverage.instructions_total = p.coverage.instructions_profiled;
    p.overhead.engine_cpu_s = static_cast<double>(below(1000)) / 3;
    p.overhead.stops = {{"miss", below(100)}};
    p.syscalls.by_name = {{"brk", {below(9), 0}}};
    attribute_functions(p, names(p));
    p.hotlists = compute_hotlists(p, kTop, [](CodeRef at) -> std::optional<SourceLine> {
      return SourceLine{"app.c", static_cast<uint32_t>(at.offset)};
    });
    REQUIRE(check_consistency(p).has_value());
    return p;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  // The same code for one build-id wherever it is in the table.
  static size_t code_of(const Module& m) {
    return m.path == "/bin/app" ? 0 : m.build_id.empty() + 1;
  }

  CodeRef place(const Profile& p) {
    const auto module = static_cast<uint32_t>(below(p.modules.size()));
    const auto& starts = boundaries_[code_of(p.modules[module])];
    return {module, starts[below(starts.size())]};
  }

  void fill_tables(Profile& p) {
    std::vector<Piece> pieces;
    for (int i = 0; i < 30; i++) {
      const auto module = static_cast<uint32_t>(below(p.modules.size()));
      const auto& starts = boundaries_[code_of(p.modules[module])];
      const size_t first = below(starts.size() - 6);
      const size_t last = first + 1 + below(5);
      const auto insns = static_cast<uint32_t>(last - first);
      const auto size = static_cast<uint32_t>(starts[last] - starts[first]);
      pieces.push_back({{module, starts[first]}, size, insns, insns, true, 1 + below(1000)});
      if (below(5) == 0) {
        const auto executed = static_cast<uint32_t>(1 + below(insns));
        pieces.push_back({{module, starts[first]}, size, insns, executed, true, 1 + below(9)});
      }
    }
    CanonicalBlocks canonical = canonical_blocks(std::move(pieces), nullptr);
    p.tables.blocks = std::move(canonical.blocks);
    p.tables.interruptions = std::move(canonical.interruptions);
    for (int i = 0; i < 40; i++) {
      const auto kind = static_cast<EdgeKind>(below(kEdgeKinds));
      p.tables.edges.push_back({place(p), place(p), kind, 1 + below(100)});
      p.tables.calls.push_back({place(p), place(p), below(2) != 0, 1 + below(100), below(1000)});
      p.tables.entries.push_back({place(p), below(100), below(1000)});
    }
    fill_data_tables(p);
    normalise(p.tables);
  }

  // Counts of one place are few values, so that votes of several runs are often equal.
  void fill_data_tables(Profile& p) {
    for (int i = 0; i < 40; i++) {
      PathRow path{1 + below(5), 0, 0, {}, {place(p)}};
      while (below(3) != 0) path.blocks.push_back(place(p));
      path.insns = 3 * path.blocks.size();
      if (below(4) != 0) {
        path.from_count = path.count;
        path.from = place(p);
        // The one at the higher offset of two callers with as many executions is taken.
        path.from.offset = 3 * path.from.offset + code_of(p.modules[path.from.module]);
      }
      p.tables.paths.push_back(path);
      const bool context = below(3) == 0;
      const auto part = static_cast<ValuePart>(below(kValueParts));
      p.tables.values.push_back({place(p),
                                 context,
                                 context ? place(p) : CodeRef{},
                                 part,
                                 64,
                                 false,
                                 {},
                                 0,
                                 figures(),
                                 {}});
      p.tables.arguments.push_back(
          {place(p), place(p), static_cast<uint8_t>(below(kArguments)), figures()});
      p.tables.latencies.push_back(load(place(p)));
      const auto level = static_cast<LatencyClass>(1 + below(3));
      p.tables.latency_pages.push_back({level, data(p, 0x1000), 1 + below(9), {}});
      p.tables.latency_values.push_back({level, below(20), 1 + below(9), {}});
      p.tables.cache_lines.push_back({data(p, kCacheLineBytes), below(9), 1 + below(9)});
    }
    p.coverage.paths = {true, false, 40, 40, below(9), below(9), below(9)};
    p.coverage.accesses = {true, below(9), 40, below(9), below(9), below(9)};
    if (below(2) != 0) p.coverage.verified = Verified{below(9), below(9), below(9)};
    if (below(4) != 0)
      p.run.host.latency = LatencyCalibration{static_cast<double>(20 + below(9)),
                                              static_cast<double>(below(90)) / 7,
                                              {4, 14, static_cast<double>(40 + below(9)), 400},
                                              {4, 5, 6, static_cast<double>(7 + below(2))},
                                              static_cast<double>(below(2) * 1500),
                                              1 + static_cast<double>(below(9)) / 10};
  }

  // Fewer values than a merged hotlist holds; now and then more were seen than the hotlist held.
  ValueFigures figures() {
    ValueFigures f;
    f.samples = static_cast<uint32_t>(below(3));
    std::map<uint64_t, uint64_t> counts;
    for (uint64_t n = 1 + below(6); n > 0; n--) counts[below(10)] += 1 + below(9);
    for (const auto& [value, count] : counts) {
      f.top.push_back({value, count});
      f.count += count;
    }
    std::sort(f.top.begin(), f.top.end(), [](const ValueCount& a, const ValueCount& b) {
      return a.count != b.count ? a.count > b.count : a.value < b.value;
    });
    f.zero = counts.contains(0) ? counts[0] : 0;
    f.same = below(f.count);
    f.strided = below(f.count);
    f.distinct = f.top.size() + (below(4) == 0 ? below(20) : 0);
    return f;
  }

  LatencyRow load(CodeRef at) {
    LatencyRow l;
    l.at = at;
    for (uint64_t& n : l.classes) l.timed += n = below(4);
    l.executions = l.timed + below(100);
    l.first_touches = below(4);
    l.cycles = below(1000);
    l.kind = static_cast<AddressKind>(below(kAddressKinds));
    l.kind_timed = l.timed;
    if (below(2) != 0) {
      l.stride = static_cast<int64_t>(below(5)) * 64 - 128;
      l.strided = 1 + below(3);
    }
    if (l.timed != 0) l.histogram = {{static_cast<uint32_t>(below(9)), l.timed}};
    return l;
  }

  DataRef data(const Profile& p, uint64_t unit) {
    if (below(2) == 0) return {false, {0, 0x7fff00000000 + below(20) * unit}};
    return {true, {static_cast<uint32_t>(below(p.modules.size())), below(20) * unit}};
  }

  FunctionTable names(const Profile& p) const {
    FunctionTable all;
    for (uint32_t m = 0; m < p.modules.size(); m++) {
      const auto& starts = boundaries_[code_of(p.modules[m])];
      for (size_t i = 0; i + 6 < starts.size(); i += 6)
        all.push_back({{m, starts[i]},
                       starts[i + 6] - starts[i],
                       fmt::format("f{}", i),
                       fmt::format("_Z{}", i),
                       "app.c",
                       static_cast<uint32_t>(i + 1),
                       0,
                       0,
                       0,
                       0});
    }
    return all;
  }

  std::mt19937_64 random_;
  std::array<std::vector<uint64_t>, 3> boundaries_;
};

TEST_CASE("merging is associative and commutative, and keeps the conservation laws") {
  for (uint64_t seed = 1; seed <= 30; seed++) {
    CAPTURE(seed);
    Runs runs(seed);
    const Profile a = runs.run();
    const Profile b = runs.run();
    const Profile c = runs.run();
    const Profile at_once = merged({{a, 2}, {b, 3}, {c, 1}});
    const Status consistent = check_consistency(at_once);
    CAPTURE((consistent ? "" : consistent.error().message));
    CHECK(consistent.has_value());
    CHECK(at_once.coverage.attributed ==
          2 * a.coverage.attributed + 3 * b.coverage.attributed + c.coverage.attributed);
    const std::string text = profile_json(at_once);
    CHECK(difference(profile_json(merged({{c, 1}, {a, 2}, {b, 3}})), text) == "");
    CHECK(difference(profile_json(merged({{merged({{a, 2}, {b, 3}}), 1}, {c, 1}})), text) == "");
    CHECK(difference(profile_json(merged({{merged({{c, 1}, {b, 3}}), 1}, {a, 2}})), text) == "");
  }
}

TEST_CASE("a weight is what adding the same profile as often would be") {
  Profile p = Runs(7).run();
  p.overhead.program_cpu_s = 3;
  p.overhead.unfollowed_cpu_s = 2;
  Profile thrice = merged({{p, 1}, {p, 1}, {p, 1}});
  Profile weighted = merged({{p, 3}});
  // How many different ones there are is not known of what has no row.
  for (Profile* each : {&thrice, &weighted}) {
    each->coverage.paths.distinct = each->coverage.accesses.lines = 0;
    each->hotlists = {};
    for (ValueRow& v : each->tables.values) v.figures.distinct = v.figures.samples = 0;
    for (ArgumentRow& a : each->tables.arguments) a.figures.distinct = a.figures.samples = 0;
  }
  thrice.run.merged.clear();
  weighted.run.merged.clear();
  thrice.run.duration_s = weighted.run.duration_s = 0;
  CHECK(weighted.overhead.program_cpu_s == 9);
  CHECK(weighted.overhead.unfollowed_cpu_s == 6);
  CHECK(thrice.overhead.unfollowed_cpu_s == 6);
  thrice.overhead = weighted.overhead = {};
  CHECK(difference(profile_json(thrice), profile_json(weighted)) == "");
}

TEST_CASE("of several runs the largest says who calls a path, and what a load's addresses are") {
  Profile a;
  a.modules = {{"/bin/app", "aa", 0, 1, 1}};
  Profile b = a;
  a.tables.paths = {{10, 3, 10, {0, 0x10}, {{0, 1}}}};
  b.tables.paths = {{11, 3, 11, {0, 0x20}, {{0, 1}}}};
  LatencyRow load;
  load.at = {0, 1};
  load.timed = load.executions = load.kind_timed = 8;
  load.kind = AddressKind::heap;
  load.stride = 64;
  load.strided = 7;
  a.tables.latencies = {load};
  load.timed = load.executions = load.kind_timed = 9;
  load.kind = AddressKind::stack;
  load.stride = 8;
  load.strided = 6;
  b.tables.latencies = {load};
  const Profile sum = merged({{a, 1}, {b, 1}, {a, 1}});
  REQUIRE(sum.tables.paths.size() == 1);
  CHECK(sum.tables.paths[0].count == 31);
  CHECK(sum.tables.paths[0].from == CodeRef{0, 0x20});
  REQUIRE(sum.tables.latencies.size() == 1);
  CHECK(sum.tables.latencies[0].executions == 25);
  CHECK(sum.tables.latencies[0].kind == AddressKind::stack);
  CHECK(sum.tables.latencies[0].stride == 64);
  CHECK(sum.tables.latencies[0].strided == 7);
}

TEST_CASE("a source line that any hotlist of a part has is in the sum's") {
  Profile part;
  part.modules = {{"/bin/app", "00ff", 0x400000, 7, 8}};
  LatencyRow load;
  load.at = {0, 0x12};
  load.timed = load.executions = 8;
  part.tables.latencies = {load};
  part.hotlists = compute_hotlists(part, kTop, [](CodeRef) { return SourceLine{"app.c", 3}; });
  const Profile sum = merged({{part, 1}, {part, 1}});
  REQUIRE(sum.hotlists.load_latency.size() == 1);
  CHECK(sum.hotlists.load_latency[0].at.file == "app.c");
  CHECK(sum.hotlists.load_latency[0].at.line == 3);
}

TEST_CASE("tables that grow with each run keep their hottest rows, and count what goes") {
  const MergeLimits limits{4, 4, 4, 4, 4};
  Merger merger(limits);
  uint64_t executions = 0;
  uint64_t accesses = 0;
  for (uint64_t run = 0; run < 50; run++) {
    Profile p;
    p.modules = {{"/bin/app", "aa", 0, 1, 1}};
    p.tables.paths = {{1000, 1, 0, {}, {{0, 1}}}, {1 + run % 7, 1, 0, {}, {{0, 100 + run}}}};
    p.tables.cache_lines = {{{false, {0, 64}}, 1000, 0}, {{false, {0, 6400 + run * 64}}, 1, 1}};
    p.tables.latency_pages = {{LatencyClass::dram, {false, {0, 0x1000}}, 1000, {}},
                              {LatencyClass::dram, {false, {0, 0x100000 + (run << 12)}}, 1, {}}};
    p.tables.latency_values = {{LatencyClass::dram, 0, 1000, {}},
                               {LatencyClass::dram, 100 + run, 1, {}}};
    ValueRow value;
    value.at = {0, 1};
    value.figures = {1001, 1000, 0, 0, 2, 0, 0, {{0, 1000}, {100 + run, 1}}};
    p.tables.values = {value};
    p.coverage.paths = {true, false, 1001 + run % 7, 2, 0, 0, 0};
    p.coverage.accesses = {true, 1002, 2, 0, 0, 0};
    executions += p.coverage.paths.executions;
    accesses += p.coverage.accesses.accesses;
    REQUIRE(merger.add(p, "p", 1).has_value());
  }
  const Profile sum = merger.finish();
  const Tables& t = sum.tables;
  CHECK(t.paths.size() <= 8);
  CHECK(t.cache_lines.size() <= 8);
  CHECK(t.latency_pages.size() <= 8);
  CHECK(t.latency_values.size() <= 8);
  REQUIRE(t.values.size() == 1);
  CHECK(t.values[0].figures.top.size() <= 8);
  CHECK(t.values[0].figures.top[0].count == 50'000);
  uint64_t in_rows = 0;
  for (const PathRow& path : t.paths) in_rows += path.count;
  CHECK(in_rows + sum.coverage.paths.pruned == executions);
  CHECK(std::any_of(t.paths.begin(), t.paths.end(),
                    [](const PathRow& path) { return path.count == 50'000; }));
  uint64_t of_lines = 0;
  for (const CacheLineRow& line : t.cache_lines) of_lines += line.accesses();
  CHECK(of_lines + sum.coverage.accesses.pruned == accesses);
  uint64_t slow = sum.coverage.events.at("pruned_latency_pairs");
  for (const LatencyPageRow& page : t.latency_pages) slow += page.count;
  for (const LatencyValueRow& v : t.latency_values) slow += v.count;
  CHECK(slow == 2 * 50 * 1001);
}

TEST_CASE("processor time keeps its threads, which are joined by name") {
  Profile p;
  p.modules = {{"/usr/bin/app", "aa", 0x1000, 1, 1}};
  p.threads = {{7, 7, "main", 30, 4}, {8, 7, "helper", 10, 2}};
  p.tables.time = {{{0, 0x10}, 0, 30, 4}, {{0, 0x10}, 1, 10, 2}};
  Profile other = p;
  other.threads.clear();
  other.tables.time.clear();
  const Profile sum = merged({{p, 1}, {p, 1}, {other, 1}});
  REQUIRE(sum.threads.size() == 2);
  for (const TimeRow& row : sum.tables.time) {
    REQUIRE(row.thread < 2);
    CHECK(row.user_ns == (sum.threads[row.thread].name == "main" ? 60 : 20));
  }
}

TEST_CASE(
    "clocks that are nearly the same are one, and ticks tell of the time that they stand for") {
  Profile p;
  p.time = {.source = "cpu-clock", .user_s = 4, .ticks = 1000, .cycles_per_s = 2e9};
  Profile like = p, other = p, rare = p;
  like.time.cycles_per_s = 2.001e9;
  like.time.user_s = 12;
  like.time.ticks = 3000;
  CHECK(merged({{p, 1}, {like, 1}}).time.cycles_per_s == 2.00075e9);
  CHECK(merged({{p, 1}, {like, 1}}).time.ticks == 4000);
  other.time.cycles_per_s = 3e9;
  CHECK(merged({{p, 1}, {other, 1}}).time.cycles_per_s == 0);
  rare.time.user_s = 396;
  rare.time.ticks = 10;
  CHECK(merged({{p, 1}, {rare, 1}}).time.ticks == 10);
  CHECK(merged({{p, 10}}).time.ticks == 1000);
  CHECK(merged({{p, 10}}).time.user_s == 40);
}

TEST_CASE("a run that knows no errors is not taken for one without") {
  Profile known = test::sample_profile();
  known.confidence = {false, 64};
  Profile alone = known;
  alone.confidence.groups = 1;
  const Profile sum = merged({{known, 1}, {alone, 1}});
  CHECK(sum.confidence.groups == 65);
  REQUIRE_FALSE(sum.tables.edges.empty());
  for (const Edge& edge : sum.tables.edges) CHECK(edge.error >= edge.count / 2);
  for (const Function& f : sum.functions) CHECK(f.self_error >= f.self / 2);
  CHECK(merged({{alone, 1}}).confidence.groups == 1);
}

TEST_CASE("parts of a program, and probes of one name, are not added to others") {
  Profile p = test::sample_profile();
  Profile part = p;
  part.run.options["only"] = "parse";
  Merger merger;
  REQUIRE(merger.add(p, "a", 1));
  const Status status = merger.add(part, "b", 1);
  REQUIRE_FALSE(status);
  CHECK(status.error().message.find("what begins in 'parse'") != std::string::npos);
  Profile probed = p;
  probed.tables.probes.clear();
  probed.probes.resize(1);
  probed.probes[0].name = "sizes";
  probed.probes[0].text = "on memcpy";
  Profile otherwise = probed;
  otherwise.probes[0].text = "on memmove";
  Merger probes;
  REQUIRE(probes.add(probed, "a", 1));
  REQUIRE(probes.add(probed, "b", 1));
  const Status refused = probes.add(otherwise, "c", 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "cannot add c: its probe 'sizes' is not that of the sum");
}

TEST_CASE("a sum cost its runs what they say, and says where they recorded unequal parts") {
  Profile a = test::sample_profile();
  a.confidence = {false, 10};
  a.coverage.estimated = true;
  a.coverage.instructions_total = 2 * a.coverage.instructions_profiled;
  a.run.duration_s = 3;
  a.overhead.budget_share = 0.01;
  a.overhead.estimated_share = 0.008;
  Profile b = a;
  b.run.duration_s = 1;
  b.overhead.estimated_share = 0.004;
  CHECK(merged({{a, 1}, {b, 1}}).overhead.estimated_share == doctest::Approx(0.007));
  CHECK(merged({{a, 1}, {b, 1}}).overhead.budget_share == doctest::Approx(0.01));
  CHECK_FALSE(uneven_runs(merged({{a, 1}, {b, 1}})));
  b.coverage.instructions_total *= 20;
  CHECK(uneven_runs(merged({{a, 1}, {b, 1}})));
}

TEST_CASE("modules are matched by build-id, and by path where there is none") {
  Profile a;
  a.modules = {{"/usr/bin/app", "aa", 0x1000, 1, 1}, {"/lib/x.so", "", 0x2000, 2, 1}};
  a.tables.entries = {{{0, 5}, 1, 0}, {{1, 5}, 2, 0}};
  Profile b;
  b.modules = {{"/lib/x.so", "", 0x9000, 77, 1},       // the same path
               {"/opt/copy/app", "aa", 0x3000, 9, 1},  // the same build-id
               {"/usr/bin/app", "bb", 0x1000, 1, 1}};  // another build under the same name
  b.tables.entries = {{{0, 5}, 10, 0}, {{1, 5}, 20, 0}, {{2, 5}, 40, 0}};
  const Profile sum = merged({{a, 1}, {b, 1}});
  REQUIRE(sum.modules.size() == 3);
  REQUIRE(sum.tables.entries.size() == 3);
  for (const Entry& e : sum.tables.entries) {
    const Module& m = sum.modules[e.at.module];
    CHECK(e.invocations == (m.build_id == "aa" ? 21 : m.build_id == "bb" ? 40 : 12));
  }
}

TEST_CASE("another build that only its functions tell is not added") {
  Profile a;
  a.modules = {{"/usr/bin/app", "", 0x1000, 1, 1}, {"/lib/x.so", "aa", 0x9000, 2, 1}};
  const auto function = [](uint32_t module, uint64_t offset, uint64_t size, const char* name) {
    profile::Function f;
    f.at = {module, offset};
    f.size = size;
    f.name = name;
    return f;
  };
  a.functions = {function(0, 0x10, 16, "parse"), function(0, 0x20, 32, "print"),
                 function(0, 0x40, 16, "main"), function(1, 0x10, 8, "x")};
  Profile stripped = a, other = a;
  stripped.functions[0].name = "function@0x10";
  other.functions[0] = function(0, 0x10, 32, "open");
  other.functions[2] = function(0, 0x40, 80, "close");
  Merger merger;
  REQUIRE(merger.add(a, "a", 1));
  REQUIRE(merger.add(stripped, "b", 1));
  const Status refused = merger.add(other, "c", 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "cannot add c: /usr/bin/app has no build-id, and is another build there");
}

TEST_CASE("each merged run is listed with its command, start, instructions and weight") {
  Profile a = test::sample_profile();
  a.run.command = {"app", "input"};
  Profile b = a;
  b.run.started = "2024-01-31T12:00:00Z";
  const Profile sum = merged({{merged({{a, 2}, {b, 1}}), 5}});
  REQUIRE(sum.run.merged.size() == 2);
  CHECK(sum.run.merged[0].started == b.run.started);
  CHECK(sum.run.merged[0].weight == 5);
  CHECK(sum.run.merged[1].weight == 10);
  CHECK(sum.run.merged[1].command == a.run.command);
  CHECK(sum.run.merged[1].instructions == a.coverage.instructions_profiled);
  CHECK(sum.run.started == b.run.started);
  const auto read = parse_profile(profile_json(sum));
  REQUIRE(read.has_value());
  CHECK(read->run.merged == sum.run.merged);
}

TEST_CASE("what the runs do not have in common is left out") {
  Profile a = test::sample_profile();
  Profile b = a;
  b.run.command = {"other"};
  b.run.mode = "shadow";
  b.confidence.exact = false;
  const Profile sum = merged({{a, 1}, {b, 1}, {a, 1}});
  CHECK(sum.run.command.empty());
  CHECK(sum.run.mode == "mixed");
  CHECK(sum.run.engine == "translator");
  CHECK(sum.run.exit.has_value());
  CHECK_FALSE(sum.confidence.exact);
}

TEST_CASE("tables of plug-ins that are alike are added, and their texts get new numbers") {
  const auto made_by = [](std::string name, std::vector<std::string> texts) {
    Profile p;
    p.plugins = {{.name = std::move(name),
                  .weight = "loads",
                  .columns = {{"what", PluginCellKind::text}},
                  .file = texts.front() + ".so",
                  .texts = texts,
                  .problems = {"of " + texts.front()},
                  .records = 10}};
    for (uint64_t t = 0; t < texts.size(); t++)
      p.tables.plugins.push_back({0, {{false, 0, t}}, 10 + t});
    return p;
  };
  const Profile one = made_by("kinds", {"b", "d"}), other = made_by("kinds", {"a", "b", "c"});
  const Profile unlike = made_by("another", {"b"});
  for (const Profile& sum : {merged({{one, 2}, {other, 1}, {unlike, 1}}),
                             merged({{unlike, 1}, {other, 1}, {one, 2}})}) {
    REQUIRE(sum.plugins.size() == 2);
    CHECK(sum.plugins[0].name == "another");
    const PluginInfo& both = sum.plugins[1];
    CHECK(both.texts == std::vector<std::string>{"a", "b", "c", "d"});
    CHECK(both.problems == std::vector<std::string>{"of a", "of b"});
    CHECK(both.file == "a.so");
    CHECK(both.records == 30);
    std::map<std::string, uint64_t> weights;
    for (const PluginRow& row : sum.tables.plugins)
      if (row.plugin == 1) weights[both.texts[row.cells[0].number]] = row.weight;
    CHECK(weights == std::map<std::string, uint64_t>{{"a", 10}, {"b", 31}, {"c", 12}, {"d", 22}});
  }
}

TEST_CASE("counts that would not fit are an error and do not wrap") {
  Profile huge;
  huge.modules = {{"/bin/app", "aa", 0, 1, 1}};
  huge.tables.edges = {{{0, 1}, {0, 2}, EdgeKind::taken, uint64_t{1} << 62}};
  Merger merger;
  CHECK(merger.add(huge, "a.json", 1).has_value());
  const Status second = merger.add(huge, "b.json", 1);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().message == "cannot add b.json: its counts are too large");
}

}  // namespace
}  // namespace shadowprof
