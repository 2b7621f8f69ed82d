// SPDX-License-Identifier: MIT
//
// Why functions changed, each reason by itself.
#include "profile/compare/diff_reasons.h"

#include <doctest/doctest.h>

#include <string>

using namespace shadowprof;
using namespace shadowprof::profile;

namespace {

// Code of "app": main at 0, f at 0x100, g at 0x200. A place's line is its offset within the
// function. Each build has another build-id, so places are the same where function and line are.
constexpr uint64_t kMain = 0, kF = 0x100, kG = 0x200;

struct Build {
  explicit Build(const char* id) {
    p.run.command = {"app"};
    p.modules = {{"/bin/app", id, 0, 1, 1, 0}};
    p.confidence.exact = true;
  }
  Function& function(uint64_t at, const char* name, uint64_t self, uint64_t calls) {
    Function f;
    f.at = {0, at};
    f.size = 0x100;
    f.name = name;
    f.file = "app.c";
    f.self = self;
    f.invocations = calls;
    p.functions.push_back(f);
    return p.functions.back();
  }
  void branch(uint64_t at, uint64_t taken, uint64_t not_taken) {
    p.tables.edges.push_back({{0, at}, {0, at + 8}, EdgeKind::taken, taken, 0});
    p.tables.edges.push_back({{0, at}, {0, at + 4}, EdgeKind::not_taken, not_taken, 0});
  }
  void call(uint64_t site, uint64_t callee, uint64_t count) {
    p.tables.calls.push_back({{0, site}, {0, callee}, false, count, 0, 0});
  }
  void line(uint64_t at, uint64_t instructions) {
    const auto f = find_function(p.functions, {0, at});
    source.costs.push_back({static_cast<uint32_t>(f - p.functions.data()), "app.c",
                            static_cast<uint32_t>(1 + at % 0x100), instructions});
  }
  Profile p;
  SourceKnowledge source{[](CodeRef at) {
                           return SourceLine{"app.c", static_cast<uint32_t>(1 + at.offset % 0x100)};
                         },
                         {}};
};

Reason reason_of(const char* name, const Build& base, const Build& now) {
  const Diff diff = compare_profiles(base.p, base.source, now.p, now.source);
  for (const FunctionChange& c : diff.functions)
    if (c.at.function == name) return c.reason;
  return {};
}

void expect(const Reason& reason, ReasonKind kind, const std::string& text) {
  CHECK(std::string(to_string(reason.kind)) == to_string(kind));
  CHECK(reason.text == text);
}

}  // namespace

TEST_CASE("a function that is called more often names the caller") {
  Build base("aa"), now("bb");
  for (Build* b : {&base, &now}) {
    const bool is_base = b == &base;
    b->function(kMain, "main", 10, 1);
    b->function(kF, "f", is_base ? 100 : 150, is_base ? 10 : 15);
    b->call(0x10, kF, is_base ? 10 : 15);
  }
  expect(reason_of("f", base, now), ReasonKind::calls, "5 more calls from main at app.c:17");
  expect(reason_of("f", now, base), ReasonKind::calls, "5 fewer calls from main at app.c:17");
  expect(reason_of("main", base, now), ReasonKind::unknown, "");
}

TEST_CASE("a function that is called less often by nobody known names no caller") {
  Build base("aa"), now("bb");
  for (Build* b : {&base, &now}) {
    b->function(kMain, "main", 1000, 1);
    b->function(kF, "f", b == &base ? 1000 : 100, b == &base ? 100 : 10);
    b->call(kMain + 4, kF, 5);  // the others are jumps
  }
  expect(reason_of("f", base, now), ReasonKind::calls, "90 fewer calls");
}

TEST_CASE("another path is named by the branch that goes another way") {
  Build base("aa"), now("bb");
  base.function(kF, "f", 100, 10);
  base.branch(0x110, 9, 1);
  base.branch(0x120, 5, 5);
  now.function(kF, "f", 140, 10);
  now.branch(0x110, 9, 1);
  now.branch(0x120, 9, 1);
  expect(reason_of("f", base, now), ReasonKind::path,
         "another path: the branch at app.c:33 taken in 90.0 %, before 50.0 %");
  // Two ways may be equally long.
  now.p.functions[0].self = 100;
  CHECK(reason_of("f", base, now).kind == ReasonKind::path);
}

TEST_CASE("a loop that goes round more often is another path") {
  Build base("aa"), now("bb");
  base.function(kF, "f", 100, 1).loop_iterations = 20;
  base.branch(0x110, 20, 1);
  now.function(kF, "f", 200, 1).loop_iterations = 40;
  now.branch(0x110, 40, 1);
  expect(reason_of("f", base, now), ReasonKind::path,
         "another path: 20 more times round its loops at app.c:17");
}

TEST_CASE("a callee in the place of another one is named on both sides") {
  Build base("aa"), now("bb");
  base.function(kMain, "main", 10, 1);
  base.function(kF, "copy_sse2", 100, 10);
  base.call(0x10, kF, 10);
  now.function(kMain, "main", 10, 1);
  now.function(kG, "copy_avx", 40, 10);
  now.call(0x10, kG, 10);
  expect(reason_of("copy_avx", base, now), ReasonKind::callee,
         "main calls it in the place of copy_sse2");
  expect(reason_of("copy_sse2", base, now), ReasonKind::callee, "main calls copy_avx in its place");
}

TEST_CASE("jumps alone are code layout") {
  Build base("aa"), now("bb");
  base.function(kF, "f", 100, 10);
  base.branch(0x110, 8, 2);
  now.function(kF, "f", 108, 10);
  now.branch(0x110, 2, 8);
  now.p.tables.edges.push_back({{0, 0x130}, {0, 0x140}, EdgeKind::jump, 8, 0});
  expect(reason_of("f", base, now), ReasonKind::layout, "code layout only: 8 more jumps");
}

TEST_CASE("new lines, and lines that do more, are code") {
  Build base("aa"), now("bb");
  base.function(kF, "f", 100, 10);
  base.line(0x110, 100);
  now.function(kF, "f", 150, 10);
  now.line(0x110, 100);
  now.line(0x120, 50);
  expect(reason_of("f", base, now), ReasonKind::code, "new code at app.c:33");
  expect(reason_of("f", now, base), ReasonKind::code, "code is gone at app.c:33");
  now.source.costs = {};
  now.line(0x110, 150);
  expect(reason_of("f", base, now), ReasonKind::code,
         "its code does 50 more instructions at app.c:17");
}

TEST_CASE("what is inlined now is named in both functions") {
  Build base("aa"), now("bb");
  base.function(kMain, "main", 10, 1);
  base.function(kG, "g", 100, 10);
  base.p.modules[0].inlining_known = 110;
  base.p.coverage.attributed = 110;
  now.function(kMain, "main", 100, 1);
  now.p.modules[0].inlining_known = 100;
  now.p.coverage.attributed = 100;
  InlinedFunction g;
  g.name = "g";
  g.self = 90;
  g.places = {{kMain, "app.c", 17, 90}};
  now.p.inlined = {g};
  expect(reason_of("g", base, now), ReasonKind::inlining, "it is inlined into main now");
  expect(reason_of("main", base, now), ReasonKind::inlining, "g is inlined into it now");
  expect(reason_of("g", now, base), ReasonKind::inlining, "it is no longer inlined into main");
  expect(reason_of("main", now, base), ReasonKind::inlining, "g is no longer inlined into it");
}

TEST_CASE("what was not executed before, or is no more, has no other reason") {
  Build base("aa"), now("bb");
  base.function(kF, "f", 100, 10);
  now.function(kG, "g", 100, 10);
  expect(reason_of("f", base, now), ReasonKind::removed, "it is not executed any more");
  expect(reason_of("g", base, now), ReasonKind::added, "it was not executed before");
}
