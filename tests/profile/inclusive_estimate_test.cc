// SPDX-License-Identifier: MIT
#include "profile/hotlists/inclusive_estimate.h"

#include <doctest/doctest.h>

using namespace shadowprof::profile;

namespace {

// Functions of 16 bytes at 0, 16, 32, ... with the given self counts.
Profile functions(std::initializer_list<uint64_t> self) {
  Profile p;
  p.modules.push_back({"/bin/x", "", 0, 1, 1});
  uint64_t offset = 0;
  for (uint64_t count : self) {
    Function f;
    f.at = {0, offset};
    f.size = 16;
    f.self = count;
    p.functions.push_back(f);
    p.coverage.instructions_profiled += count;
    offset += 16;
  }
  return p;
}

void call(Profile& p, uint64_t from, uint64_t to, uint64_t count) {
  p.tables.calls.push_back({{0, from * 16 + 4}, {0, to * 16}, false, count, 0});
}

}  // namespace

TEST_CASE("a callee's instructions are shared by its callers as they call it") {
  Profile p = functions({10, 20, 400});
  call(p, 0, 1, 1);
  call(p, 0, 2, 1);
  call(p, 1, 2, 3);
  estimate_inclusive(p);
  CHECK(p.functions[2].inclusive == 400);
  CHECK(p.functions[1].inclusive == 320);
  CHECK(p.functions[0].inclusive == 430);
  CHECK(p.tables.calls[1].inclusive == 100);
  CHECK(p.tables.calls[2].inclusive == 300);
  CHECK(p.run.options.at("inclusive") == "estimated");
}

TEST_CASE("functions that call each other have what is done within their calls") {
  Profile p = functions({1, 1500, 3000, 700});
  call(p, 0, 1, 300);   // is_even, 1500 times
  call(p, 1, 2, 1500);  // is_odd
  call(p, 2, 1, 1200);
  call(p, 2, 3, 700);
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 5200);
  // All but the first of each series.
  CHECK(p.functions[2].inclusive == 3000 + 700 + 1200);
  CHECK(p.functions[0].inclusive == 5201);
}

TEST_CASE("a circle that nobody calls shares its figure") {
  Profile p = functions({50, 50});
  call(p, 0, 1, 9);
  call(p, 1, 0, 9);
  estimate_inclusive(p);
  CHECK(p.functions[0].inclusive == 100);
  CHECK(p.functions[1].inclusive == 100);
}

TEST_CASE("a jump to where a function begins is a call, and one to another place the way back") {
  Profile p = functions({5, 60, 30});
  call(p, 0, 1, 2);
  const auto jump = [&](uint64_t from, uint64_t to, uint64_t count) {
    p.tables.edges.push_back({{0, from}, {0, to}, EdgeKind::jump, count});
  };
  jump(1 * 16 + 8, 2 * 16 + 4, 10);  // to a part of it that lies elsewhere
  jump(2 * 16 + 8, 1 * 16 + 4, 10);
  estimate_inclusive(p);
  CHECK(p.functions[2].inclusive == 30);
  CHECK(p.functions[1].inclusive == 90);
  CHECK(p.functions[1].invocations == 0);
  jump(0 * 16 + 8, 1 * 16, 3);
  estimate_inclusive(p);
  CHECK(p.functions[1].invocations == 3);
}

TEST_CASE("a conditional jump to where a function begins is a call") {
  Profile p = functions({5, 60, 32});
  call(p, 0, 1, 2);
  call(p, 0, 2, 1);
  p.tables.edges.push_back({{0, 1 * 16 + 8}, {0, 2 * 16}, EdgeKind::taken, 3});
  // Within one it is none.
  p.tables.edges.push_back({{0, 1 * 16 + 8}, {0, 1 * 16}, EdgeKind::taken, 9});
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 60 + 24);
  CHECK(p.tables.calls[1].inclusive == 8);
  CHECK(p.functions[2].invocations == 3);
  CHECK(p.functions[1].invocations == 0);
}

TEST_CASE("threads are not called by who makes them, and a stub's function is called once") {
  Profile p = functions({5, 20, 1000, 60});
  p.functions[1].name = "clone3";
  call(p, 0, 1, 2);
  call(p, 1, 2, 2);  // in the new threads
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 20);
  CHECK(p.functions[0].inclusive == 25);
  CHECK(p.functions[2].inclusive == 1000);
  p = functions({5, 20, 1000});
  p.functions[1].name = "_dl_runtime_resolve_xsavec";
  call(p, 0, 1, 1);
  call(p, 0, 2, 10);
  p.tables.edges.push_back({{0, 1 * 16 + 8}, {0, 2 * 16}, EdgeKind::indirect_jump, 1});
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 20);
  CHECK(p.functions[2].invocations == 0);
  CHECK(p.tables.calls[1].inclusive == 1000);
}

TEST_CASE("a function that calls itself keeps its own figure") {
  Profile p = functions({5, 60});
  call(p, 0, 1, 1);
  call(p, 1, 1, 20);
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 60);
  CHECK(p.functions[0].inclusive == 65);
}
