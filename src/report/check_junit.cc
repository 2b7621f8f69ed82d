// SPDX-License-Identifier: MIT
//
// Findings as JUnit XML: a test suite for each comparison, a test case for each limit. Warnings do
// not fail a case; they stand in its output.
#include <fmt/format.h>

#include "report/check_report.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

using profile::Finding;
using profile::Severity;

// For text that is printable but for the ends of its lines.
std::string xml(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string line_of(const Finding& f) {
  if (f.file.empty()) return printable(f.message);
  return printable(f.line == 0 ? f.file + ": " + f.message
                               : fmt::format("{}:{}: {}", f.file, f.line, f.message));
}

struct Case {
  std::string failures;
  std::string warnings;
};

Case case_of(const Comparison& c, const std::string& rule) {
  Case result;
  for (const Finding& f : c.findings) {
    if (f.rule != rule) continue;
    if (f.severity == Severity::error)
      result.failures += line_of(f) + "\n";
    else
      result.warnings += line_of(f) + "\n";
  }
  return result;
}

}  // namespace

// A case may have one failure only, so all that break one limit share it.
std::string junit_report(const std::vector<Comparison>& all) {
  std::string suites;
  size_t all_tests = 0;
  size_t all_failures = 0;
  for (const Comparison& c : all) {
    std::string cases;
    size_t failures = 0;
    for (const std::string& rule : c.rules) {
      const Case found = case_of(c, rule);
      cases += fmt::format("    <testcase classname=\"shadowprof.check\" name=\"{}\" time=\"0\"",
                           xml(printable(rule)));
      if (found.failures.empty() && found.warnings.empty()) {
        cases += "/>\n";
        continue;
      }
      cases += ">\n";
      if (!found.failures.empty()) {
        failures++;
        const std::string first = found.failures.substr(0, found.failures.find('\n'));
        cases += fmt::format("      <failure message=\"{}\" type=\"regression\">{}</failure>\n",
                             xml(first), xml(found.failures.substr(0, found.failures.size() - 1)));
      }
      if (!found.warnings.empty())
        cases += fmt::format("      <system-out>{}</system-out>\n",
                             xml(found.warnings.substr(0, found.warnings.size() - 1)));
      cases += "    </testcase>\n";
    }
    suites += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\" "
        "time=\"0\">\n{}  </testsuite>\n",
        xml(c.name.empty() ? "shadowprof" : printable(c.name)), c.rules.size(), failures, cases);
    all_tests += c.rules.size();
    all_failures += failures;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"0\">\n{}</testsuites>\n",
      all_tests, all_failures, suites);
}

}  // namespace shadowprof::report
