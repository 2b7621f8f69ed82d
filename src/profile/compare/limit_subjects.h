// SPDX-License-Identifier: MIT
//
// What a rule of limit_rule.h judges of a comparison: its subjects, each with the figures of its
// metric.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/compare/limit_rule.h"

namespace shadowprof::profile {

inline constexpr double kShareUnit = 1e6;  // shares are compared in millionths

// Whether a metric's figures are shares.
bool is_share(LimitRule::Metric metric);

// One thing that a rule judges.
struct Judged {
  std::string name;  // "of parse"; "" for the whole program
  std::string function;
  std::string module;
  std::string file;
  uint32_t line = 0;
  bool in_base = true;
  Change change;
  Change whole;                     // what the change is a part of
  std::optional<double> part = {};  // of it that the change is, where that is not the change itself
  double error = 0;                 // standard error of the change
  std::string cause = {};  // ", most of it in parse (+120)"; "" where it is one function anyway
};

std::vector<Judged> judged_by(const Diff& diff, const LimitRule& rule);

// Whether `glob` stands for the function: by its whole name, its linkage name, or without types.
bool names_function(std::string_view glob, const std::string& name, const std::string& linkage);

// The globs of a path: "a->b" has two.
std::vector<std::string> path_globs(const std::string& pattern);

}  // namespace shadowprof::profile
