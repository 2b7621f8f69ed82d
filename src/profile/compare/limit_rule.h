// SPDX-License-Identifier: MIT
//
// Limits on what may change from one profile to the next: the rules of `shadowprof check`.
//
//   RULE    = ["warn:"] SUBJECT ("<=" | ">=") BOUND ["@" SHARE "%"]
//   SUBJECT = "instructions" | "calls" | "syscalls"        of the whole program
//           | "function:" GLOB ":" METRIC                  each function that matches
//           | "inlined:" GLOB ":" INLINED                  each that was inlined: all places in sum
//           | "module:" GLOB ":instructions"               each file that matches, by its name
//           | "calls:" GLOB | "calls:" GLOB "->" GLOB      calls of a function, from a function
//           | "syscalls:" GLOB                             each system call that matches
//           | "path-share:" PATH | "path:" PATH ":" ("instructions" | "count" | "share")
//                                                          each path through what matches
//           | "value:" GLOB ":invariance"                  each instruction of what matches: how
//                                                          often it computes the base's top value
//           | "load:" GLOB ":" ("lost" | "misses")         each load of what matches: cycles lost;
//                                                          share that L1 and L2 did not serve
//   METRIC  = "instructions" | "inclusive" | "calls" | "loops" | "share"
//   INLINED = "instructions" | "inclusive" | "share"       a part of those of functions
//   PATH    = GLOB {"->" GLOB}                             functions one after the other
//   BOUND   = ("+" | "-") NUMBER "%"        relative to the base
//           | ("+" | "-") NUMBER [K|M|G]    the difference to the base
//           | NUMBER [K|M|G]                the new value; of a share: NUMBER "%"
//
// Functions are known by their whole name, their linkage name, and without types: "app::parse" and
// "parse" are the function "int app::parse<char>(char const*)".
// For a share "+1%" is one percentage point. "@0.1%": only changes of at least that share of the
// base's instructions count; calls and system calls are compared with their own totals; of a load
// the cycles lost count as instructions, and of a value the executions that changed it. A function
// that an exact base does not have is judged by absolute bounds and not by relative ones: what it
// costs shows in the whole program. Where something was sampled that is not known of the whole
// program, and such a function is beyond any relative bound, if noise does not explain it. A GLOB
// without a wildcard that names nothing in either profile is an error, so that a gate does not pass
// because of a misspelt name.
//
// A sampled figure must also differ by more than noise, and so must times of loads, which are
// measured in every mode. Totals of a sampled profile and its system calls are judged by absolute
// bounds only: how far they are off is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profile/compare/diff.h"

namespace shadowprof::profile {

enum class Severity : uint8_t { warning, error };

struct LimitRule {
  enum class Subject : uint8_t {
    program,
    function,
    inlined,
    module,
    call,
    syscall,
    path,
    value,
    load
  };
  enum class Metric : uint8_t {
    instructions,
    inclusive,
    calls,
    loops,
    share,
    syscalls,
    count,
    invariance,
    lost,
    misses
  };
  enum class Bound : uint8_t { relative, difference, absolute };

  std::string text;
  Severity severity = Severity::error;
  Subject subject = Subject::program;
  Metric metric = Metric::instructions;
  std::string pattern;  // of the function, module, callee or system call
  std::string caller;   // "" where it does not matter
  bool at_most = true;
  Bound bound = Bound::relative;
  double value = 0;             // a percentage is 100 times smaller here
  double floor = 0;             // share of the base
  bool where_profiled = false;  // passes where the profiles do not have what it is about
};

// What a rule found: one function, call or total that is beyond its limit.
struct Finding {
  std::string rule;
  Severity severity = Severity::error;
  std::string subject;   // "instructions", "instructions of parse", "calls of malloc"
  std::string function;  // "" where it is no function
  std::string module;    // "" for the whole program
  std::string file;      // "" when unknown
  uint32_t line = 0;     // 0 when unknown
  Change change;
  bool share = false;   // `change` counts millionths of the program
  std::string message;  // one sentence without a full stop
};

Result<LimitRule> parse_limit_rule(std::string_view text);

// The limits where none are given.
const std::vector<std::string>& default_limit_rules();

// Whether `text` matches `glob`, where * stands for any characters and ? for one.
bool matches_glob(std::string_view glob, std::string_view text);

// Which changes a check could have seen, where a profile is sampled.
struct Sensitivity {
  // All limits that a check fails by are absolute, or noise does not hide that half of what one of
  // them is about doubles.
  bool decidable = false;
  std::string
      subject;  // the largest one that can be: "instructions of parse"; "" where there is none
  double change = 0;    // of it that would have been seen, as a share of it
  double part = 0;      // that it is of the whole
};
Sensitivity sensitivity(const Diff& diff, const std::vector<LimitRule>& rules);

// In the order of the rules, each rule's by effect. An error names a rule that can never apply.
Result<std::vector<Finding>> check_limits(const Diff& diff, const std::vector<LimitRule>& rules);

}  // namespace shadowprof::profile
