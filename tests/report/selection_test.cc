// SPDX-License-Identifier: MIT
#include "report/selection.h"

#include <doctest/doctest.h>

namespace shadowprof {
namespace {

profile::Hotlists lists() {
  profile::Hotlists l;
  l.methods = {{1, {"/bin/app", 0, "parse", "a.cc", 1}, 9, 10, 0, 0, 1, 7},
               {2, {"/bin/app", 9, "main", "a.cc", 5}, 5, 30, 0, 0, 2, 0},
               {3, {"/lib/libz.so", 0, "inflate", "", 0}, 2, 2, 0, 0, 9, 1}};
  l.edges = {{1, l.methods[0].at, l.methods[1].at, profile::EdgeKind::jump, 1, 0.5},
             {2, l.methods[2].at, l.methods[2].at, profile::EdgeKind::jump, 1, 0.5}};
  return l;
}

std::string order(std::string_view sort, std::string_view filter) {
  auto l = lists();
  report::select_rows(l, sort, filter);
  std::string names;
  for (const auto& m : l.methods) names += m.at.function + " ";
  return names;
}

TEST_CASE("functions are sorted by what was asked for") {
  CHECK(order("self", "") == "parse main inflate ");
  CHECK(order("total", "") == "main parse inflate ");
  CHECK(order("calls", "") == "inflate main parse ");
  CHECK(order("loops", "") == "parse inflate main ");
  CHECK(order("name", "") == "inflate main parse ");
}

TEST_CASE("a filter finds functions, files and modules, whatever the case") {
  CHECK(order("self", "PARSE") == "parse ");
  CHECK(order("self", "A.cc") == "parse main ");
  CHECK(order("self", "libz") == "inflate ");
  CHECK(order("self", "nothing").empty());
  auto l = lists();
  report::select_rows(l, "self", "main");
  REQUIRE(l.edges.size() == 1);
  CHECK(l.edges[0].rank == 1);
}

TEST_CASE("a filter keeps a row of any list that names a fitting place") {
  const auto whole = lists();
  profile::Hotlists l;
  profile::HotPath path;
  path.from = whole.methods[1].at;
  path.blocks = {whole.methods[0].at};
  profile::HotTargets targets;
  targets.at = whole.methods[0].at;
  targets.targets = {{whole.methods[1].at, 1, 1}};
  l.paths = {path};
  l.targets = {targets};
  l.cache_lines = {{1, {"/lib/libz.so", 64}, 9, 0, 0.9}, {2, {"", 64}, 1, 0, 0.1}};
  auto of_main = l;
  CHECK(report::select_rows(of_main, "", "main"));
  CHECK(of_main.paths.size() == 1);
  CHECK(of_main.targets.size() == 1);
  CHECK(of_main.cache_lines.empty());
  report::select_rows(l, "", "libz");
  CHECK(l.paths.empty());
  CHECK(l.cache_lines.size() == 1);
}

TEST_CASE("a filter that nothing fits says so") {
  auto l = lists();
  CHECK(report::select_rows(l, "self", ""));
  CHECK(report::select_rows(l, "self", "main"));
  CHECK(!report::select_rows(l, "self", "nothing"));
}

}  // namespace
}  // namespace shadowprof
