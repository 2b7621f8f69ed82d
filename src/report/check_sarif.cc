// SPDX-License-Identifier: MIT
//
// Findings as SARIF 2.1.0 (an OASIS standard): what code scanning services read.
#include <nlohmann/json.hpp>
#include <set>

#include "report/check_report.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;
using profile::Finding;
using profile::Severity;

// A relative reference of RFC 3986: what is not unreserved is written as %XX.
std::string uri(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/+";
  std::string result = path.starts_with('/') ? "file://" : "";
  for (char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || kPlain.find(c) != std::string_view::npos)
      result += c;
    else
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

Json result_json(const Comparison& c, const Finding& f) {
  const std::string name = c.name.empty() ? "" : c.name + ": ";
  Json location = Json::object();
  // A location without a file is one in a function alone.
  const std::string file = f.file.empty() ? f.module : f.file;
  if (!file.empty()) {
    location["physicalLocation"]["artifactLocation"]["uri"] = uri(file);
    if (!f.file.empty() && f.line != 0)
      location["physicalLocation"]["region"]["startLine"] = f.line;
  }
  if (!f.function.empty())
    location["logicalLocations"] = {
        {{"fullyQualifiedName", printable(f.function)}, {"kind", "function"}}};
  Json j = {{"ruleId", f.rule},
            {"level", f.severity == Severity::error ? "error" : "warning"},
            {"message", {{"text", printable(name + f.message)}}}};
  if (!location.empty()) j["locations"] = {location};
  // The same finding in two runs has the same fingerprint, whatever the figures are.
  j["partialFingerprints"] = {{"subject/v1", printable(name + f.rule + " " + f.subject)}};
  return j;
}

}  // namespace

std::string sarif_report(const std::vector<Comparison>& all, const std::string& version) {
  Json results = Json::array();
  std::set<std::string> rules;
  for (const Comparison& c : all) {
    rules.insert(c.rules.begin(), c.rules.end());
    for (const Finding& f : c.findings) results.push_back(result_json(c, f));
  }
  Json descriptions = Json::array();
  for (const std::string& rule : rules)
    descriptions.push_back(
        {{"id", rule}, {"shortDescription", {{"text", "Limit " + rule + " is exceeded"}}}});
  Json driver = {{"name", "shadowprof"}};
  if (!version.empty()) driver["version"] = version;
  driver["rules"] = descriptions;
  Json run;
  run["tool"]["driver"] = driver;
  run["results"] = results;
  Json j;
  j["$schema"] =
      "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
  j["version"] = "2.1.0";
  j["runs"] = Json::array({run});
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report
