// SPDX-License-Identifier: MIT
#include "profile/limit_rule.h"

#include <fmt/format.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace shadowprof::profile {
namespace {

using Subject = LimitRule::Subject;
using Metric = LimitRule::Metric;
using Bound = LimitRule::Bound;

constexpr double kShareUnit = 1e6;  // shares are compared in millionths

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    return std::nullopt;
  return value;
}

std::optional<Metric> function_metric(std::string_view name) {
  constexpr std::pair<std::string_view, Metric> kMetrics[] = {
      {"instructions", Metric::instructions},
      {"inclusive", Metric::inclusive},
      {"calls", Metric::calls},
      {"loops", Metric::loops},
      {"share", Metric::share}};
  for (const auto& [n, metric] : kMetrics)
    if (n == name) return metric;
  return std::nullopt;
}

Status parse_subject(std::string_view text, LimitRule& rule) {
  if (text == "instructions") return {};
  if (text == "calls" || text == "syscalls") {
    rule.metric = text == "calls" ? Metric::calls : Metric::syscalls;
    return {};
  }
  if (take_prefix(text, "function:")) {
    // Names of functions have colons of their own.
    const size_t colon = text.rfind(':');
    const auto metric =
        colon == std::string_view::npos ? std::nullopt : function_metric(text.substr(colon + 1));
    if (!metric || colon == 0)
      return fail(
          "a limit on functions is function:NAME:METRIC, where METRIC is instructions, "
          "inclusive, calls, loops or share");
    rule.subject = Subject::function;
    rule.metric = *metric;
    rule.pattern = text.substr(0, colon);
    return {};
  }
  if (take_prefix(text, "module:")) {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0 || text.substr(colon + 1) != "instructions")
      return fail("a limit on a file is module:NAME:instructions");
    rule.subject = Subject::module;
    rule.pattern = text.substr(0, colon);
    return {};
  }
  const bool calls = take_prefix(text, "calls:");
  if (!calls && !take_prefix(text, "syscalls:"))
    return fail(
        "a limit is on instructions, calls, syscalls, function:NAME:METRIC, "
        "module:NAME:instructions, calls:NAME or syscalls:NAME");
  if (text.empty()) return fail("the name is missing");
  rule.subject = calls ? Subject::call : Subject::syscall;
  rule.metric = calls ? Metric::calls : Metric::syscalls;
  const size_t arrow = calls ? text.find("->") : std::string_view::npos;
  if (arrow != std::string_view::npos) {
    rule.caller = trimmed(text.substr(0, arrow));
    text = trimmed(text.substr(arrow + 2));
  }
  rule.pattern = text;
  return {};
}

Status parse_bound(std::string_view text, LimitRule& rule) {
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    std::string_view floor = trimmed(text.substr(at + 1));
    const auto value =
        floor.ends_with('%') ? parse_number(floor.substr(0, floor.size() - 1)) : std::nullopt;
    if (!value) return fail("behind @ stands a percentage, as in @0.1%");
    rule.floor = *value / 100;
    text = trimmed(text.substr(0, at));
  }
  const bool is_signed = text.starts_with('+') || text.starts_with('-');
  const double sign = text.starts_with('-') ? -1 : 1;
  if (is_signed) text.remove_prefix(1);
  const bool percent = text.ends_with('%');
  double unit = 1;
  if (percent) {
    text.remove_suffix(1);
  } else if (!text.empty()) {
    constexpr std::pair<char, double> kUnits[] = {{'K', 1e3}, {'M', 1e6}, {'G', 1e9}};
    for (const auto& [letter, size] : kUnits)
      if (text.back() == letter) unit = size;
    if (unit != 1) text.remove_suffix(1);
  }
  const auto number = parse_number(text);
  if (!number) return fail("the bound is a number such as +1%, +500, 10M, or 35% for a share");
  const bool share = rule.metric == Metric::share;
  if (share != percent && (share || !is_signed))
    return fail("{}", share ? "a share is bounded by a percentage"
                            : "only a share has a percentage without + or -");
  rule.value = sign * *number * (percent ? 0.01 : unit);
  rule.bound = !is_signed          ? Bound::absolute
               : share || !percent ? Bound::difference
                                   : Bound::relative;
  return {};
}

// One thing that a rule judges.
struct Judged {
  std::string name;  // "of parse"; "" for the whole program
  std::string function;
  std::string module;
  std::string file;
  uint32_t line = 0;
  bool in_base = true;
  Change change;
  Change whole;  // what the change is a part of
  double noise = 0;
  std::string cause = {};  // ", most of it in parse (+120)"; "" where it is one function anyway
};

std::string shown_module(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Names that people may write in a rule: "app::parse" and "parse" for
// "int app::parse<char>(char const*) const".
struct ShortNames {
  std::string qualified;
  std::string unqualified;
};

ShortNames short_names(std::string_view name) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  constexpr std::string_view kOperator = "operator";
  std::string qualified;
  size_t last = 0;  // where the last part of it begins
  int depth = 0;    // of template arguments
  for (size_t i = 0; i < name.size(); i++) {
    const std::string_view rest = name.substr(i);
    const bool word_begins = qualified.empty() || qualified.back() == ':';
    if (depth == 0 && rest.starts_with(kUnnamed)) {
      i += kUnnamed.size() - 1;
    } else if (depth == 0 && word_begins && rest.starts_with(kOperator)) {
      // What follows may be any character; only its own parentheses come in a pair.
      const size_t from = kOperator.size() + (rest.substr(kOperator.size(), 2) == "()" ? 2 : 0);
      qualified += rest.substr(0, std::min(rest.find('(', from), rest.size()));
      break;
    } else if (name[i] == '<') {
      depth++;
    } else if (name[i] == '>') {
      depth--;
    } else if (depth == 0) {
      if (name[i] == '(') break;
      // Before a blank stands the type that the function returns.
      if (name[i] == ' ') qualified.clear();
      if (name[i] != ' ') qualified += name[i];
      if (qualified.empty() || name[i] == ':') last = qualified.size();
    }
  }
  return {qualified, qualified.substr(last)};
}

bool names_function(std::string_view glob, const std::string& name, const std::string& linkage) {
  if (matches_glob(glob, name) || matches_glob(glob, linkage)) return true;
  const ShortNames names = short_names(name);
  return matches_glob(glob, names.qualified) || matches_glob(glob, names.unqualified);
}

Change metric_of(const FunctionChange& c, Metric metric, const Diff& diff) {
  switch (metric) {
    case Metric::inclusive:
      return c.inclusive;
    case Metric::calls:
      return c.invocations;
    case Metric::loops:
      return c.loop_iterations;
    case Metric::share: {
      const auto share = [](uint64_t part, uint64_t all) {
        if (all == 0) return uint64_t{0};
        return static_cast<uint64_t>(
            std::llround(static_cast<double>(part) / static_cast<double>(all) * kShareUnit));
      };
      return {share(c.self.base, diff.instructions.base), share(c.self.now, diff.instructions.now)};
    }
    case Metric::instructions:
    case Metric::syscalls:
      break;
  }
  return c.self;
}

// With the file that it is in where no source says where it is.
std::string name_in_text(const Place& at) {
  if (!at.file.empty() || at.module.empty()) return "of " + at.function;
  return "of " + at.function + " in " + shown_module(at.module);
}

std::vector<Judged> judged_functions(const Diff& diff, const LimitRule& rule) {
  std::vector<Judged> all;
  for (const FunctionChange& c : diff.functions) {
    if (!names_function(rule.pattern, c.at.function, c.linkage_name)) continue;
    Judged j{name_in_text(c.at),
             c.at.function,
             c.at.module,
             c.at.file,
             c.at.line,
             c.presence != Presence::added,
             metric_of(c, rule.metric, diff),
             diff.instructions,
             0};
    if (rule.metric == Metric::calls) j.whole = diff.calls;
    if (rule.metric == Metric::share)
      j.whole = {static_cast<uint64_t>(kShareUnit), static_cast<uint64_t>(kShareUnit)};
    if (rule.metric == Metric::instructions) j.noise = c.noise;
    all.push_back(std::move(j));
  }
  return all;
}

// Where to look first: the function that changed most in the direction of the whole, of all or of
// one module.
void name_cause(const Diff& diff, const std::string& module, Judged& j) {
  const bool more = j.change.delta() > 0;
  for (const FunctionChange& c : diff.functions) {
    const int64_t delta = c.self.delta();
    if (delta == 0 || (delta > 0) != more) continue;
    if (!module.empty() && shown_module(c.at.module) != module) continue;
    j.function = c.at.function;
    j.module = c.at.module;
    j.file = c.at.file;
    j.line = c.at.line;
    j.cause = fmt::format(", most of it in {} ({:+})", name_in_text(c.at).substr(3), delta);
    return;
  }
}

std::vector<Judged> judged_modules(const Diff& diff, const LimitRule& rule) {
  std::map<std::string, Judged> by_name;
  for (const FunctionChange& c : diff.functions) {
    const std::string name = shown_module(c.at.module);
    if (!matches_glob(rule.pattern, name)) continue;
    Judged& j = by_name[name];
    j.name = "in " + name;
    j.module = c.at.module;
    j.change.base += c.self.base;
    j.change.now += c.self.now;
    j.whole = diff.instructions;
    j.noise = std::hypot(j.noise, c.noise);
  }
  std::vector<Judged> all;
  for (auto& [name, j] : by_name) {
    j.in_base = j.change.base != 0;
    name_cause(diff, name, j);
    all.push_back(std::move(j));
  }
  return all;
}

// Call pairs of one caller and callee are one: it does not matter which line calls. A rule without
// a caller judges a function's calls altogether.
std::vector<Judged> judged_calls(const Diff& diff, const LimitRule& rule) {
  std::map<std::pair<std::string, std::string>, Judged> by_name;
  for (const CallChange& c : diff.call_pairs) {
    if (!names_function(rule.pattern, c.callee.function, c.callee.function)) continue;
    if (!rule.caller.empty() && !names_function(rule.caller, c.site.function, c.site.function))
      continue;
    const std::string caller = rule.caller.empty() ? "" : c.site.function;
    const auto [at, added] = by_name.try_emplace({caller, c.callee.function});
    Judged& j = at->second;
    if (added) {
      j.name = "of " + c.callee.function + (caller.empty() ? "" : " from " + caller);
      const Place& where = caller.empty() ? c.callee : c.site;
      j.function = where.function;
      j.module = where.module;
      j.file = where.file;
      j.line = where.line;
      j.whole = diff.calls;
    }
    j.change.base += c.count.base;
    j.change.now += c.count.now;
  }
  std::vector<Judged> all;
  for (auto& [name, j] : by_name) {
    j.in_base = j.change.base != 0;
    all.push_back(std::move(j));
  }
  return all;
}

std::vector<Judged> judged_by(const Diff& diff, const LimitRule& rule) {
  switch (rule.subject) {
    case Subject::function:
      return judged_functions(diff, rule);
    case Subject::module:
      return judged_modules(diff, rule);
    case Subject::call:
      return judged_calls(diff, rule);
    case Subject::syscall: {
      std::vector<Judged> all;
      for (const SyscallChange& s : diff.syscall_names)
        if (matches_glob(rule.pattern, s.name))
          all.push_back({s.name, "", "", "", 0, s.count.base != 0, s.count, diff.syscalls, 0});
      return all;
    }
    case Subject::program:
      break;
  }
  Judged whole;
  whole.change = rule.metric == Metric::calls      ? diff.calls
                 : rule.metric == Metric::syscalls ? diff.syscalls
                                                   : diff.instructions;
  whole.whole = whole.change;
  if (rule.metric == Metric::instructions) name_cause(diff, "", whole);
  return {whole};
}

bool is_violated(const LimitRule& rule, const Judged& j) {
  const double base = static_cast<double>(j.change.base);
  const double now = static_cast<double>(j.change.now);
  const double unit = rule.metric == Metric::share ? kShareUnit : 1;
  if (rule.bound == Bound::relative && !j.in_base) return false;
  const double limit = rule.bound == Bound::relative     ? base * (1 + rule.value)
                       : rule.bound == Bound::difference ? base + rule.value * unit
                                                         : rule.value * unit;
  if (rule.at_most ? now <= limit : now >= limit) return false;
  if (std::abs(now - base) < rule.floor * static_cast<double>(j.whole.base)) return false;
  // An absolute bound is about the new value alone.
  return rule.bound == Bound::absolute || std::abs(now - base) > j.noise;
}

const char* metric_name(Metric metric) {
  switch (metric) {
    case Metric::instructions:
      return "instructions";
    case Metric::inclusive:
      return "instructions with callees";
    case Metric::calls:
      return "calls";
    case Metric::loops:
      return "loop iterations";
    case Metric::share:
      return "share of instructions";
    case Metric::syscalls:
      return "system calls";
  }
  return "?";
}

std::string figure(uint64_t n, bool share) {
  return share ? fmt::format("{:.2f}%", static_cast<double>(n) / kShareUnit * 100)
               : fmt::format("{}", n);
}

Finding finding_for(const LimitRule& rule, const Judged& j) {
  Finding f;
  f.rule = rule.text;
  f.severity = rule.severity;
  f.subject = metric_name(rule.metric) + (j.name.empty() ? "" : " " + j.name);
  f.function = j.function;
  f.module = j.module;
  f.file = j.file;
  f.line = j.line;
  f.change = j.change;
  f.share = rule.metric == Metric::share;
  std::string change = "unchanged";
  if (j.change.base == 0)
    change = "new";
  else if (j.change.base != j.change.now)
    change = fmt::format("{:+.2f}%", 100 * j.change.ratio());
  f.message = fmt::format("{}: {} before, {} now ({}){}, limit {}", f.subject,
                          figure(j.change.base, f.share), figure(j.change.now, f.share), change,
                          j.cause, rule.text);
  return f;
}

bool has_wildcard(const std::string& glob) {
  return glob.find_first_of("*?") != std::string::npos;
}

Status check_names(const Diff& diff, const LimitRule& rule) {
  if (rule.subject == Subject::syscall || rule.subject == Subject::program) return {};
  for (const std::string& glob : {rule.pattern, rule.caller}) {
    if (glob.empty() || has_wildcard(glob)) continue;
    const bool found =
        std::any_of(diff.functions.begin(), diff.functions.end(), [&](const FunctionChange& c) {
          return rule.subject == Subject::module
                     ? matches_glob(glob, shown_module(c.at.module))
                     : names_function(glob, c.at.function, c.linkage_name);
        });
    if (!found)
      return fail("limit {}: neither profile has a {} {}", rule.text,
                  rule.subject == Subject::module ? "file" : "function", glob);
  }
  return {};
}

}  // namespace

bool matches_glob(std::string_view glob, std::string_view text) {
  size_t g = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && (glob[g] == '?' || (glob[g] == text[t] && glob[g] != '*'))) {
      g++;
      t++;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

Result<LimitRule> parse_limit_rule(std::string_view text) {
  LimitRule rule;
  rule.text = text;
  std::string_view rest = trimmed(text);
  if (take_prefix(rest, "warn:")) rule.severity = Severity::warning;
  // Names of functions may have <= in them; the last one is ours.
  const size_t most = rest.rfind("<=");
  const size_t least = rest.rfind(">=");
  if (most == std::string_view::npos && least == std::string_view::npos)
    return fail("limit {}: there is no <= or >= in it", text);
  const size_t at = most == std::string_view::npos    ? least
                    : least == std::string_view::npos ? most
                                                      : std::max(most, least);
  rule.at_most = rest[at] == '<';
  Status status = parse_subject(trimmed(rest.substr(0, at)), rule);
  if (status) status = parse_bound(trimmed(rest.substr(at + 2)), rule);
  if (!status) return fail("limit {}: {}", text, status.error().message);
  return rule;
}

const std::vector<std::string>& default_limit_rules() {
  static const std::vector<std::string> kRules = {
      "instructions<=+1%", "function:*:instructions<=+3%@0.1%", "warn:syscalls<=+10%"};
  return kRules;
}

Result<std::vector<Finding>> check_limits(const Diff& diff, const std::vector<LimitRule>& rules) {
  std::vector<Finding> findings;
  for (const LimitRule& rule : rules) {
    SP_TRY(check_names(diff, rule));
    std::vector<Judged> judged = judged_by(diff, rule);
    std::erase_if(judged, [&](const Judged& j) { return !is_violated(rule, j); });
    std::stable_sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) {
      return std::abs(a.change.delta()) > std::abs(b.change.delta());
    });
    for (const Judged& j : judged) findings.push_back(finding_for(rule, j));
  }
  return findings;
}

}  // namespace shadowprof::profile
