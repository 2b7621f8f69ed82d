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

TEST_CASE("functions that call each other share the figure of their circle") {
  Profile p = functions({1, 50, 50, 7});
  call(p, 0, 1, 1);
  call(p, 1, 2, 9);
  call(p, 2, 1, 9);
  call(p, 2, 3, 7);
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 107);
  CHECK(p.functions[2].inclusive == 107);
  CHECK(p.functions[0].inclusive == 108);
}

TEST_CASE("a function that calls itself keeps its own figure") {
  Profile p = functions({5, 60});
  call(p, 0, 1, 1);
  call(p, 1, 1, 20);
  estimate_inclusive(p);
  CHECK(p.functions[1].inclusive == 60);
  CHECK(p.functions[0].inclusive == 65);
}
