// SPDX-License-Identifier: MIT
#include "profile/compare/limit_rule.h"

#include <doctest/doctest.h>

namespace shadowprof {
namespace {

using namespace profile;

FunctionChange function(std::string name, uint64_t base, uint64_t now) {
  FunctionChange f;
  f.at = {"/bin/app", 16, name, "app.cc", 7};
  f.linkage_name = std::move(name);
  f.presence = base == 0 ? Presence::added : now == 0 ? Presence::removed : Presence::both;
  f.self = {base, now};
  return f;
}

Diff sample() {
  Diff d;
  d.exact = d.has_calls = d.has_edges = true;
  d.instructions = {1000, 1020};
  d.calls = {10, 11};
  // As compare_profiles ranks them.
  d.functions = {function("faster", 499, 451), function("fresh", 0, 40),
                 function("app::parse(int)", 500, 526), function("tiny", 1, 3),
                 function("main", 5, 5)};
  d.call_pairs = {{{"/bin/app", 3, "main", "m.cc", 1},
                   {"/bin/app", 16, "tiny", "app.cc", 7},
                   EdgeKind::call,
                   {10, 10},
                   {1, 3}}};
  return d;
}

std::vector<Finding> check(const std::string& rule, const Diff& diff = sample()) {
  const auto parsed = parse_limit_rule(rule);
  REQUIRE(parsed.has_value());
  const auto found = check_limits(diff, {*parsed});
  REQUIRE(found.has_value());
  return *found;
}

std::string rule_error(const std::string& rule) {
  const auto parsed = parse_limit_rule(rule);
  if (!parsed) return parsed.error().message;
  const auto found = check_limits(sample(), {*parsed});
  return found ? "" : found.error().message;
}

TEST_CASE("a limit is exceeded by more than it and not by as much") {
  CHECK(check("instructions<=+2%").empty());
  CHECK(check("instructions <= +1.9%").size() == 1);
  CHECK(check("instructions<=+20").empty());
  CHECK(check("instructions<=+19").size() == 1);
  CHECK(check("instructions<=1020").empty());
  CHECK(check("instructions<=1.019K").size() == 1);
  CHECK(check("instructions>=1021").size() == 1);
  CHECK(check("function:faster:instructions<=-10%").size() == 1);
  CHECK(check("function:faster:instructions<=-9%").empty());
}

TEST_CASE("findings name the function, its file and its line") {
  const auto found = check("warn:function:parse:instructions<=+3%");
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::warning);
  CHECK(found[0].function == "app::parse(int)");
  CHECK(found[0].file == "app.cc");
  CHECK(found[0].line == 7);
  CHECK(found[0].message ==
        "instructions of app::parse(int): 500 before, 526 now (+5.20%), "
        "limit warn:function:parse:instructions<=+3%");
}

TEST_CASE("a limit on the whole program names the function that changed most") {
  const auto found = check("instructions<=+1%");
  REQUIRE(found.size() == 1);
  CHECK(found[0].function == "fresh");
  CHECK(found[0].line == 7);
  CHECK(found[0].message.find(", most of it in fresh (+40), limit") != std::string::npos);
}

TEST_CASE("small changes are left out behind @, and new functions by relative limits") {
  CHECK(check("function:*:instructions<=+3%").size() == 2);
  CHECK(check("function:*:instructions<=+3%@1%").size() == 1);
  CHECK(check("function:fresh:instructions<=+3%").empty());
  CHECK(check("function:fresh:instructions<=+30").size() == 1);
  CHECK(check("function:*:share<=+2%").size() == 1);
  CHECK(check("function:*:share<=51%").size() == 1);
}

TEST_CASE("calls that did not change still have absolute limits") {
  CHECK(check("calls:tiny<=+0").empty());
  CHECK(check("calls:tiny<=9").size() == 1);
  CHECK(check("calls:main->tiny<=9").size() == 1);
  CHECK(check("calls:parse->tiny<=9").empty());
}

TEST_CASE("a function is known by the name that it is linked by, too, whatever the limit is on") {
  Diff d = sample();
  d.functions.back().linkage_name = "_Zmain";
  d.functions[3].linkage_name = "_Ztiny";
  d.has_paths = true;
  PathChange path;
  path.at = d.call_pairs[0].to;
  path.functions = {d.call_pairs[0].from, d.call_pairs[0].to};
  path.count = path.instructions = {1, 100};
  d.paths = {path};
  CHECK(check("calls:_Ztiny<=9", d).size() == 1);
  CHECK(check("calls:_Zmain->_Ztiny<=9", d).size() == 1);
  CHECK(check("calls:_Ztiny->_Zmain<=9", d).empty());
  CHECK(check("path:_Zmain->_Ztiny:count<=9", d).size() == 1);
  CHECK(check("path:_Ztiny->_Zmain:count<=9", d).empty());
}

TEST_CASE("limits on what was not profiled are refused") {
  Diff d = sample();
  d.has_calls = d.has_edges = false;
  for (const char* rule :
       {"calls<=+0", "calls:tiny<=+0", "function:tiny:calls<=+0", "function:tiny:loops<=+0"}) {
    CAPTURE(rule);
    const auto found = check_limits(d, {*parse_limit_rule(rule)});
    REQUIRE_FALSE(found);
    CHECK(found.error().message.find("not both profiles have") != std::string::npos);
  }
}

TEST_CASE("functions are known without types and namespaces") {
  const std::pair<const char*, const char*> names[] = {
      {"int app::parse<char>(char const*) const", "app::parse"},
      {"int app::parse<char>(char const*) const", "parse"},
      {"(anonymous namespace)::hash(std::vector<char, std::allocator<char> > const&)", "hash"},
      {"app::Set::operator()(int) const", "app::Set::operator()"},
      {"bool operator< <int>(A<int> const&, A<int> const&)", "operator< <int>"},
      {"std::map<int, int>::find(int const&)", "std::map::find"},
      {"encoding/json.(*encodeState).string", "json.(*encodeState).string"},
      {"main", "main"}};
  for (const auto& pair : names) {
    const std::string name = pair.first;
    CAPTURE(name);
    Diff d = sample();
    d.functions = {function(name, 1, 2)};
    CHECK(check(std::string("function:") + pair.second + ":instructions<=+0", d).size() == 1);
  }
}

TEST_CASE("what is no limit, or can never apply, is an error that says why") {
  CHECK(rule_error("instructions") == "limit instructions: there is no <= or >= in it");
  CHECK(rule_error("function:prase:instructions<=+1%") ==
        "limit function:prase:instructions<=+1%: neither profile has a function prase");
  for (const char* bad : {"",
                          "<=+1%",
                          "speed<=+1%",
                          "function:x<=+1%",
                          "function::instructions<=+1%",
                          "function:x:speed<=+1%",
                          "calls:<=1",
                          "instructions<=1%",
                          "instructions<=+",
                          "instructions<=+1%@1",
                          "function:x:share<=5",
                          "module:x:calls<=+1",
                          "instructions<=nan",
                          "instructions<=+1x",
                          "calls:nobody<=+1",
                          "function: :calls<=+1",
                          "calls:main-><=+1",
                          "calls:->main<=+1",
                          "path-share:main-><=+1",
                          "module: :instructions<=+1"}) {
    CAPTURE(bad);
    CHECK(rule_error(bad) != "");
  }
}

TEST_CASE("a glob takes any characters for a star and one for a question mark") {
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("a*c", "abbc"));
  CHECK(matches_glob("a?c", "abc"));
  CHECK(matches_glob("*b*b", "abcbb"));
  CHECK_FALSE(matches_glob("a?c", "ac"));
  CHECK_FALSE(matches_glob("a*c", "abcd"));
  CHECK_FALSE(matches_glob("", "a"));
}

PathChange path(std::vector<std::string> functions, uint64_t base, uint64_t now) {
  PathChange p;
  for (std::string& f : functions) p.functions.push_back({"/bin/app", 1, std::move(f), "p.cc", 4});
  p.at = p.functions.front();
  p.lines = {{"p.cc", 4}, {"p.cc", 9}};
  p.blocks = 3;
  p.count = {base / 10, now / 10};
  p.instructions = {base, now};
  return p;
}

Diff with_hotlists() {
  Diff d = sample();
  d.has_paths = d.has_values = d.has_loads = true;
  d.paths = {path({"main", "app::parse(int)", "main"}, 100, 300), path({"tiny"}, 50, 20)};
  ValueChange value;
  value.at = {"/bin/app", 7, "app::parse(int)", "app.cc", 9};
  value.value = 4096;
  value.executions = {100, 100};
  value.invariance = {980'000, 100'000};
  d.values = {value};
  LoadChange load;
  load.at = {"/bin/app", 8, "tiny", "app.cc", 11};
  load.executions = {10, 10};
  load.lost_cycles = {40, 3000};
  load.misses = {0, 900'000};
  load.error = 50;
  load.miss_error = 10'000;
  d.loads = {load};
  return d;
}

TEST_CASE("paths are limited by the functions that they go through") {
  const Diff d = with_hotlists();
  const auto found = check("path-share:parse<=+10%", d);
  REQUIRE(found.size() == 1);
  CHECK(found[0].line == 4);
  CHECK(found[0].share);
  CHECK(found[0].change.base == 100'000);
  CHECK(found[0].message.find("main -> app::parse(int) -> main (3 blocks, lines 4, 9)") !=
        std::string::npos);
  CHECK(check("path-share:parse<=+20%", d).empty());
  CHECK(check("path-share:main->parse<=+10%", d).size() == 1);
  CHECK(check("path-share:parse->tiny<=+1%", d).empty());
  CHECK(check("path:*:instructions<=+100%", d).size() == 1);
  CHECK(check("path:*:count<=29", d).size() == 1);
  CHECK(check("path:*:instructions<=+100%@50%", d).empty());
}

TEST_CASE("values are limited by the share of what was the most frequent one") {
  CHECK(check("value:parse:invariance>=-50%", with_hotlists()).size() == 1);
  CHECK(check("value:parse:invariance>=-90%", with_hotlists()).empty());
  CHECK(check("value:tiny:invariance>=-1%", with_hotlists()).empty());
  // 88 of 1000 instructions compute something else.
  CHECK(check("value:*:invariance>=-50%@8%", with_hotlists()).size() == 1);
  CHECK(check("value:*:invariance>=-50%@9%", with_hotlists()).empty());
}

TEST_CASE("loads are limited by lost cycles and by misses, beyond the noise of their times") {
  Diff d = with_hotlists();
  CHECK(check("load:tiny:lost<=+100%@10%", d).size() == 1);
  CHECK(check("load:tiny:misses<=+50%", d).size() == 1);
  CHECK(check("load:tiny:misses<=+95%", d).empty());
  d.loads[0].error = 2000;
  CHECK(check("load:tiny:lost<=+100%@10%", d).empty());
}

TEST_CASE("a limit on what was not profiled is an error, unless it holds by default") {
  auto rule = *parse_limit_rule("path-share:*<=+1%");
  CHECK_FALSE(check_limits(sample(), {rule}).has_value());
  rule.where_profiled = true;
  CHECK(check_limits(sample(), {rule})->empty());
}

TEST_CASE("sampled figures must differ by more than noise, and totals are not judged") {
  Diff d = sample();
  d.exact = false;
  d.groups = 30;
  CHECK(check("instructions<=+1%", d).empty());
  CHECK(check("instructions<=1000", d).size() == 1);
  for (FunctionChange& f : d.functions) f.error = 1;
  CHECK(check("function:parse:instructions<=+3%", d).size() == 1);
  for (FunctionChange& f : d.functions) f.error = 10;
  CHECK(check("function:parse:instructions<=+3%", d).empty());
  d.groups = 0;
  for (FunctionChange& f : d.functions) f.error = 0.1;
  CHECK(check("function:parse:instructions<=+3%", d).empty());
}

TEST_CASE("what only the new one of two sampled profiles has is beyond relative limits") {
  Diff d = sample();
  CHECK(check("function:fresh:instructions<=+3%", d).empty());
  d.exact = false;
  d.groups = 30;
  for (FunctionChange& f : d.functions) f.error = 4;
  CHECK(check("function:fresh:instructions<=+3%", d).size() == 1);
  CHECK(check("function:fresh:instructions<=+3%@5%", d).empty());
  for (FunctionChange& f : d.functions) f.error = 12;
  CHECK(check("function:fresh:instructions<=+3%", d).empty());
}

TEST_CASE("functions of one module are met by the same samples") {
  Diff d = sample();
  d.exact = false;
  d.groups = 100;
  d.functions = {function("a", 100, 120), function("b", 100, 120), function("c", 100, 120),
                 function("d", 100, 120)};
  for (FunctionChange& f : d.functions) f.error = 5;
  CHECK(check("module:app:instructions<=+3%", d).size() == 1);
  for (FunctionChange& f : d.functions) f.error = 9;
  CHECK(check("module:app:instructions<=+3%", d).empty());
}

TEST_CASE("what a check of sampled profiles could have seen is known") {
  Diff d = sample();
  d.exact = false;
  d.groups = 30;
  const auto seen = [&](const char* rule) { return sensitivity(d, {*parse_limit_rule(rule)}); };
  // Nothing has an error: what was sampled is too rare for one.
  CHECK_FALSE(seen("function:parse:instructions<=+3%").decidable);
  CHECK_FALSE(seen("instructions<=+1%").decidable);
  CHECK(seen("instructions<=1000").decidable);
  const auto relative = parse_limit_rule("function:parse:instructions<=+3%");
  for (const char* absolute : {"instructions<=1000", "warn:instructions<=1000"})
    CHECK_FALSE(sensitivity(d, {*relative, *parse_limit_rule(absolute)}).decidable);
  for (FunctionChange& f : d.functions) f.error = 10;
  const auto found = seen("function:parse:instructions<=+3%");
  CHECK(found.decidable);
  CHECK(sensitivity(d, {*relative, *parse_limit_rule("instructions<=1000")}).decidable);
  CHECK(found.subject == "instructions of app::parse(int)");
  CHECK(found.change > 20.0 / static_cast<double>(d.functions[0].self.base));
  CHECK(found.change < 1);
  CHECK(seen("function:parse:instructions<=+50%").change > 0.5);
  for (FunctionChange& f : d.functions) f.error = 1e9;
  CHECK_FALSE(seen("function:parse:instructions<=+3%").decidable);
  d.groups = 1;
  for (FunctionChange& f : d.functions) f.error = 0.1;
  CHECK_FALSE(seen("function:parse:instructions<=+3%").decidable);
}

}  // namespace
}  // namespace shadowprof
