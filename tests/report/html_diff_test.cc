// SPDX-License-Identifier: MIT
//
// What the page of two profiles is made of. That it works is seen in a browser: tests/gate/html.py.
#include "report/html_diff.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "../profile/sample_profile.h"

namespace shadowprof {
namespace {

using profile::ContextKind;
using profile::Function;
using profile::kNoContext;
using profile::Profile;

std::string diff_page(const Profile& base, const Profile& now, size_t rows = 300) {
  report::HtmlOptions options;
  options.rows = rows;
  return report::render_html_diff(profile::compare_profiles(base, {}, now, {}),
                                  {base, "before.json"}, {now, "after.json"}, options);
}

nlohmann::json diff_data(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  const std::string data = page.substr(at, page.find("</script>", at) - at);
  CHECK(data.find('<') == std::string::npos);
  return nlohmann::json::parse(data);
}

// main calls f and g, which have so many instructions of their own, with these errors.
Profile of_two(uint64_t f, uint64_t g, uint64_t f_error = 0, uint64_t g_error = 0) {
  Profile p;
  p.run.command = {"/app"};
  p.modules = {{"/app", "aa", 0, 1, 1}};
  const auto function = [&](uint64_t offset, const char* name, uint64_t self, uint64_t error) {
    Function made;
    made.at = {0, offset};
    made.size = 16;
    made.name = name;
    made.self = self;
    made.self_error = error;
    p.functions.push_back(made);
  };
  function(0x10, "main", 10, 0);
  function(0x20, "f", f, f_error);
  function(0x30, "g", g, g_error);
  p.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x10}, 10, 0, 0},
                       {0, ContextKind::code, {0, 0x20}, f, 3, f_error},
                       {0, ContextKind::code, {0, 0x30}, g, 1, g_error}};
  p.tables.calls = {{{0, 0x12}, {0, 0x20}, false, 3, f}, {{0, 0x14}, {0, 0x30}, true, 1, g}};
  p.coverage.attributed = p.coverage.instructions_profiled = p.coverage.instructions_total =
      10 + f + g;
  p.confidence.exact = f_error == 0 && g_error == 0;
  p.confidence.groups = 1000;
  return p;
}

nlohmann::json context_named(const nlohmann::json& data, const std::string& name) {
  for (const auto& row : data["contexts"]["rows"])
    if (data["contexts"]["names"][row[1].get<size_t>()][1] == name) return row;
  return {};
}

TEST_CASE("contexts have their counts before and now, with all below and their own") {
  const auto data = diff_data(diff_page(of_two(100, 50), of_two(130, 50)));
  CHECK(data["contexts"]["all"] == nlohmann::json({160, 190}));
  CHECK(context_named(data, "main") == nlohmann::json({-1, 0, 160, 190, 10, 10, 0, 0, 0, 0}));
  CHECK(context_named(data, "f") == nlohmann::json({0, 1, 100, 130, 100, 130, 3, 3, 0, 0}));
  CHECK(data["exact"] == true);
}

TEST_CASE("a function of a list is known to its contexts, calls and lines by its place there") {
  const auto data = diff_data(diff_page(of_two(100, 50), of_two(130, 50)));
  REQUIRE(data["lists"]["functions"].size() == 1);
  CHECK(data["lists"]["functions"][0][3] == "f");
  CHECK(data["contexts"]["names"][1] == nlohmann::json({"f", "f", 0}));
  CHECK(data["contexts"]["names"][0] == nlohmann::json({"main", "main", -1}));
  REQUIRE(data["pairs"].size() == 1);
  CHECK(data["pairs"][0] == nlohmann::json({"main", 0, 3, 3, 100, 130, false}));
}

TEST_CASE("the error of what is below a context is the sum at most, and that of all the rest") {
  const auto data = diff_data(diff_page(of_two(1000, 500, 30, 40), of_two(1000, 500, 40, 30)));
  const double of_f = context_named(data, "f")[9].get<double>();
  CHECK(of_f > 90);  // 1.96 times 50
  CHECK(of_f < 110);
  // Both are 50: f with all below is off by as much as the rest, all contexts by nothing.
  CHECK(context_named(data, "f")[8] == of_f);
  CHECK(context_named(data, "main")[8] == 0);
}

TEST_CASE("an interval that is not known is no number") {
  Profile base = of_two(1000, 500, 30, 40);
  base.confidence.groups = 0;
  const auto data = diff_data(diff_page(base, base));
  CHECK(context_named(data, "f")[9].is_null());
}

TEST_CASE("lists are as long as asked for, and say how many changes there are") {
  const auto data = diff_data(diff_page(of_two(100, 50), of_two(130, 60), 1));
  CHECK(data["lists"]["functions"].size() == 1);
  CHECK(data["sizes"]["functions"] == 2);
}

TEST_CASE("profiles without contexts, and those of which one has some, have their lists") {
  Profile without = of_two(100, 50);
  without.tables.contexts.clear();
  for (const Profile& now : {without, of_two(130, 50)}) {
    const auto data = diff_data(diff_page(without, now));
    CHECK(data["contexts"]["rows"].empty());
    CHECK(data["base"]["contexts"] == false);
  }
}

TEST_CASE("hostile names of either profile cannot end the page's data or change its direction") {
  Profile base = of_two(100, 50);
  Profile now = of_two(130, 50);
  for (Profile* p : {&base, &now}) {
    p->functions[1].name = "</script><script>alert(1)</script>";
    p->functions[2].name = "\xe2\x80\xae" + std::string(10'000, 'x');
    p->run.command = {"@SCRIPT@@DATA@<!--"};
  }
  now.functions[2].self++;
  const std::string page = diff_page(base, now);
  const auto data = diff_data(page);
  CHECK(data["lists"]["functions"][0][4] == "</script><script>alert(1)</script>");
  CHECK(page.find("\xe2\x80\xae") == std::string::npos);
  CHECK(page.find(std::string(500, 'x')) == std::string::npos);
  CHECK(data["base"]["run"]["command"] == "@SCRIPT@@DATA@<!--");
}

TEST_CASE("the page of two profiles refers to nothing outside itself") {
  const std::string page = diff_page(test::sample_profile(), test::sample_profile());
  for (const char* word :
       {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"})
    CHECK_MESSAGE(page.find(word) == std::string::npos, word);
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

}  // namespace
}  // namespace shadowprof
