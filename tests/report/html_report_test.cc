// SPDX-License-Identifier: MIT
//
// What the page is made of. That it works is seen in a browser: tests/gate/html.py.
#include "report/html_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "../profile/sample_profile.h"

namespace shadowprof {
namespace {

std::string page_of(const profile::Profile& p) {
  return report::render_html(p, symbols::ModuleSet(p.modules), {});
}

std::string data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

TEST_CASE("names cannot end the page's data, change its direction or make it long") {
  profile::Profile p = test::sample_profile();
  p.functions[0].name = "</script><script>alert(1)</script>";
  p.hotlists.methods[0].at.function = p.functions[0].name;
  p.functions[1].name = "\xe2\x80\xae" + std::string(10'000, 'x');
  p.run.command = {"<!--<script>"};
  const std::string data = data_of(page_of(p));
  CHECK(data.find('<') == std::string::npos);
  CHECK(data.find("\xe2\x80\xae") == std::string::npos);
  CHECK(data.find(std::string(500, 'x')) == std::string::npos);
  const auto json = nlohmann::json::parse(data, nullptr, false);
  REQUIRE(!json.is_discarded());
  CHECK(json["functions"][0][8] == "</script><script>alert(1)</script>");
  CHECK(json["run"]["command"] == "<!--<script>");
}

TEST_CASE("a number of instructions that was assumed is not known") {
  profile::Profile p = test::sample_profile();
  p.coverage.estimated = true;
  CHECK(nlohmann::json::parse(data_of(page_of(p)))["coverage"]["total"].is_number());
  p.coverage.assumed_total = true;
  const auto coverage = nlohmann::json::parse(data_of(page_of(p)))["coverage"];
  CHECK(coverage["total"].is_null());
  CHECK(coverage["share"].is_null());
}

TEST_CASE("the page refers to nothing outside itself") {
  const std::string page = page_of(test::sample_profile());
  for (const char* word :
       {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"})
    CHECK_MESSAGE(page.find(word) == std::string::npos, word);
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("the page holds what it shows and not the profile's tables") {
  profile::Profile p = test::sample_profile();
  const size_t small = page_of(p).size();
  for (uint64_t i = 0; i < 100'000; i++)
    p.tables.edges.push_back({{0, 0x1000 + i}, {0, 0x10}, profile::EdgeKind::jump, i});
  CHECK(page_of(p).size() < small + 1000);
}

TEST_CASE("marks of the page that are names are left as they are") {
  profile::Profile p = test::sample_profile();
  p.run.command = {"@SCRIPT@@DATA@@STYLE@"};
  CHECK(data_of(page_of(p)).find("@SCRIPT@@DATA@@STYLE@") != std::string::npos);
}

}  // namespace
}  // namespace shadowprof
