// SPDX-License-Identifier: MIT
#include "report/check_report.h"

#include <doctest/doctest.h>

namespace shadowprof {
namespace {

using namespace report;

// One finding whose every part has characters that a format must escape.
std::vector<Comparison> hostile() {
  profile::Finding f;
  f.rule = "function:*:instructions<=+3%";
  f.subject = "instructions of operator<\"&|\x1b[31m";
  f.function = "operator<\"&|\x1b[31m";
  f.file = "src/a b,c:d%.cc";
  f.line = 7;
  f.change = {100, 110};
  f.message = f.subject + ": 100 before\n110 now";
  Comparison c;
  c.name = "x & y";
  c.instructions = {1000, 1010};
  c.rules = {f.rule, "instructions<=+2%"};
  c.findings = {f};
  return {c};
}

TEST_CASE("annotations of GitHub escape what would end a property or a line") {
  const std::string text = render_check(hostile(), CheckFormat::github);
  const std::string first = text.substr(0, text.find('\n'));
  CHECK(first.starts_with("::error file=src/a b%2Cc%3Ad%25.cc,line=7,title=x & y%3A "));
  CHECK(first.find('\x1b') == std::string::npos);
  CHECK(first.find("100 before\\x0a110 now") != std::string::npos);
}

TEST_CASE("JUnit XML has one case for each limit and escapes names") {
  const std::string text = render_check(hostile(), CheckFormat::junit);
  CHECK(text.find("<testsuites tests=\"2\" failures=\"1\"") != std::string::npos);
  CHECK(text.find("name=\"x &amp; y\"") != std::string::npos);
  CHECK(text.find("operator&lt;&quot;&amp;|\\x1b[31m") != std::string::npos);
  CHECK(text.find("name=\"instructions&lt;=+2%\" time=\"0\"/>") != std::string::npos);
}

TEST_CASE("SARIF names files as URIs") {
  const std::string text = render_check(hostile(), CheckFormat::sarif);
  CHECK(text.find("\"src/a%20b%2Cc%3Ad%25.cc\"") != std::string::npos);
  CHECK(text.find("\"startLine\": 7") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a Markdown table keeps its columns whatever a function is called") {
  const std::string text = render_check(hostile(), CheckFormat::markdown);
  const size_t row = text.find("| error |");
  REQUIRE(row != std::string::npos);
  const std::string line = text.substr(row, text.find('\n', row) - row);
  size_t bars = 0;
  for (size_t i = 0; i < line.size(); i++)
    bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
  CHECK(bars == 8);
}

TEST_CASE("warnings do not fail a JUnit case, and are counted apart in text") {
  auto all = hostile();
  all[0].findings[0].severity = profile::Severity::warning;
  CHECK(render_check(all, CheckFormat::junit).find("<failure") == std::string::npos);
  CHECK(render_check(all, CheckFormat::text).ends_with("0 regressions, 1 warning\n"));
}

}  // namespace
}  // namespace shadowprof
