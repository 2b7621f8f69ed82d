// SPDX-License-Identifier: MIT
//
// What `shadowprof check` found, for people and for the systems that run it. Names come from the
// profiled program: each format escapes what it must.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/compare/limit_rule.h"

namespace shadowprof::report {

// One base profile against one new one.
struct Comparison {
  std::string name;  // "" where there is only one without a name
  std::string base_file;
  std::string new_file;
  bool exact = true;
  std::string seen;  // where it is not: which change it could have seen, a sentence; "" if exact
  bool knows_totals = true;
  profile::Change instructions;
  std::vector<std::string> rules;
  std::vector<profile::Finding> findings;  // files relative to where the sources are
};

enum class CheckFormat { text, markdown, github, sarif, junit };
std::optional<CheckFormat> check_format_from(std::string_view name);

// `version` is that of the tool, for formats that name it.
std::string render_check(const std::vector<Comparison>& all, CheckFormat format,
                         const std::string& version = "");

// The formats of other systems, one per file.
std::string sarif_report(const std::vector<Comparison>& all, const std::string& version);
std::string junit_report(const std::vector<Comparison>& all);

}  // namespace shadowprof::report
