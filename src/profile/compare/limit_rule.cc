// SPDX-License-Identifier: MIT
#include "profile/compare/limit_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/file_name.h"
#include "profile/compare/limit_subjects.h"

namespace shadowprof::profile {
namespace {

using Subject = LimitRule::Subject;
using Metric = LimitRule::Metric;
using Bound = LimitRule::Bound;

// For a check whose profiles are sampled: how likely it is that noise alone exceeds one of its
// limits.
constexpr double kFalseAlarm = 0.01;

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

// Subjects that are a name and a metric, which stands behind the last colon: names of functions
// have colons of their own.
struct NamedSubject {
  std::string_view prefix;
  Subject subject;
  std::vector<std::pair<std::string_view, Metric>> metrics;
  const char* form;
};

const std::vector<NamedSubject>& named_subjects() {
  static const std::vector<NamedSubject> kSubjects = {
      {"function:",
       Subject::function,
       {{"instructions", Metric::instructions},
        {"inclusive", Metric::inclusive},
        {"calls", Metric::calls},
        {"loops", Metric::loops},
        {"share", Metric::share}},
       "functions is function:NAME:METRIC, where METRIC is instructions, inclusive, calls, loops "
       "or share"},
      {"inlined:",
       Subject::inlined,
       {{"instructions", Metric::instructions},
        {"inclusive", Metric::inclusive},
        {"share", Metric::share}},
       "inlined functions is inlined:NAME:METRIC, where METRIC is instructions, inclusive or "
       "share"},
      {"module:",
       Subject::module,
       {{"instructions", Metric::instructions}},
       "a file is module:NAME:instructions"},
      {"path:",
       Subject::path,
       {{"instructions", Metric::instructions}, {"count", Metric::count}, {"share", Metric::share}},
       "paths is path:NAME:METRIC or path:NAME->NAME:METRIC, where METRIC is instructions, "
       "count or share"},
      {"value:",
       Subject::value,
       {{"invariance", Metric::invariance}},
       "values is value:NAME:invariance"},
      {"load:",
       Subject::load,
       {{"lost", Metric::lost}, {"misses", Metric::misses}},
       "loads is load:NAME:METRIC, where METRIC is lost or misses"}};
  return kSubjects;
}

Status is_missing(std::string_view name) {
  if (name.empty()) return fail("the name is missing");
  return {};
}

Status parse_named(const NamedSubject& kind, std::string_view text, LimitRule& rule) {
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && colon != 0) {
    for (const auto& [name, metric] : kind.metrics) {
      if (name != text.substr(colon + 1)) continue;
      rule.subject = kind.subject;
      rule.metric = metric;
      rule.pattern = trimmed(text.substr(0, colon));
      return is_missing(rule.pattern);
    }
  }
  return fail("a limit on {}", kind.form);
}

Status parse_subject(std::string_view text, LimitRule& rule) {
  if (text == "instructions") return {};
  if (text == "calls" || text == "syscalls") {
    rule.metric = text == "calls" ? Metric::calls : Metric::syscalls;
    return {};
  }
  for (const NamedSubject& kind : named_subjects())
    if (take_prefix(text, kind.prefix)) return parse_named(kind, text, rule);
  const bool path = take_prefix(text, "path-share:");
  const bool calls = !path && take_prefix(text, "calls:");
  if (!path && !calls && !take_prefix(text, "syscalls:"))
    return fail(
        "a limit is on instructions, calls, syscalls, function:NAME:METRIC, inlined:NAME:METRIC, "
        "module:NAME:instructions, calls:NAME, syscalls:NAME, path-share:NAME, path:NAME:METRIC, "
        "value:NAME:invariance or load:NAME:METRIC");
  rule.subject = path ? Subject::path : calls ? Subject::call : Subject::syscall;
  rule.metric = path ? Metric::share : calls ? Metric::calls : Metric::syscalls;
  const size_t arrow = calls ? text.find("->") : std::string_view::npos;
  if (arrow != std::string_view::npos) {
    rule.caller = trimmed(text.substr(0, arrow));
    text = trimmed(text.substr(arrow + 2));
  }
  rule.pattern = text;
  const bool is_from_nobody = arrow != std::string_view::npos && rule.caller.empty();
  const auto globs = path_globs(rule.pattern);
  return is_missing(is_from_nobody ? rule.caller
                                   : *std::ranges::min_element(globs, {}, &std::string::size));
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
  const bool share = is_share(rule.metric);
  if (share != percent && (share || !is_signed))
    return fail("{}", share ? "a share is bounded by a percentage"
                            : "only a share has a percentage without + or -");
  rule.value = sign * *number * (percent ? 0.01 : unit);
  rule.bound = !is_signed          ? Bound::absolute
               : share || !percent ? Bound::difference
                                   : Bound::relative;
  return {};
}

// `critical`: noise in standard errors. What has no error is exact, or where something was sampled,
// too rare for one.
bool is_violated(const LimitRule& rule, const Judged& j, bool exact, double critical) {
  const double base = static_cast<double>(j.change.base);
  const double now = static_cast<double>(j.change.now);
  const double unit = is_share(rule.metric) ? kShareUnit : 1;
  if (rule.bound == Bound::relative && !j.in_base) {
    if (exact || !rule.at_most) return false;
    // The base's samples may have missed it as far as this profile's samples differ.
    critical *= std::sqrt(2);
  }
  const double limit = rule.bound == Bound::relative     ? base * (1 + rule.value)
                       : rule.bound == Bound::difference ? base + rule.value * unit
                                                         : rule.value * unit;
  if (rule.at_most ? now <= limit : now >= limit) return false;
  const double part = j.part.value_or(std::abs(now - base));
  if (part < rule.floor * static_cast<double>(j.whole.base)) return false;
  // An absolute bound is about the new value alone.
  if (rule.bound == Bound::absolute) return true;
  return j.error == 0 ? exact : std::abs(now - base) > critical * j.error;
}

// What a change must be so that it is seen 19 times in 20: by chance it looks smaller.
double visible_change(const LimitRule& rule, const Judged& j, double critical) {
  constexpr double kSeen = 1.645;  // standard errors, to one side
  const double unit = is_share(rule.metric) ? kShareUnit : 1;
  const double bound =
      rule.value * (rule.bound == Bound::relative ? static_cast<double>(j.change.base) : unit);
  const double floor = j.part ? 0 : rule.floor * static_cast<double>(j.whole.base);
  return std::max(
      {std::abs(bound) + kSeen * j.error, floor + kSeen * j.error, (critical + kSeen) * j.error});
}

// What is so small that it cannot change by the rule's floor need not be kept from false alarms.
bool can_matter(const LimitRule& rule, const Judged& j) {
  if (j.part) return *j.part >= rule.floor * static_cast<double>(j.whole.base);
  return static_cast<double>(std::max(j.change.base, j.change.now)) >=
         rule.floor * static_cast<double>(j.whole.base);
}

// How many standard errors of a rule's subjects are noise. All subjects of all rules share the
// probability of a false alarm (Bonferroni).
double critical_for(const Diff& diff, const LimitRule& rule, const std::vector<Judged>& judged,
                    size_t rules) {
  const auto chances = std::count_if(judged.begin(), judged.end(),
                                     [&](const Judged& j) { return can_matter(rule, j); }) *
                       static_cast<ptrdiff_t>(rules);
  const double level = 1 - kFalseAlarm / static_cast<double>(std::max<ptrdiff_t>(chances, 1));
  return critical_value(diff.error_groups(), level);
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
    case Metric::count:
      return "executions";
    case Metric::invariance:
      return "share of executions";
    case Metric::lost:
      return "cycles lost";
    case Metric::misses:
      return "misses";
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
  f.share = is_share(rule.metric);
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

Status check_profiles(const Diff& diff, const LimitRule& rule) {
  const auto need = [&](bool have, const char* what, const char* option) -> Status {
    if (have) return {};
    return fail("limit {}: not both profiles have {} (run --profile {})", rule.text, what, option);
  };
  if (rule.subject == Subject::inlined && !diff.has_inlined)
    return fail("limit {}: not both profiles know what was inlined (debug information tells)",
                rule.text);
  if (rule.subject == Subject::path) return need(diff.has_paths, "paths", "path");
  if (rule.subject == Subject::value && diff.hides_values)
    return fail("limit {}: a profile hides its values (--redact-values)", rule.text);
  if (rule.subject == Subject::value) return need(diff.has_values, "values", "value");
  if (rule.subject == Subject::load) return need(diff.has_loads, "load latencies", "latency");
  if (rule.metric == Metric::calls) return need(diff.has_calls, "calls", "call");
  if (rule.metric == Metric::loops) return need(diff.has_edges, "edges", "edge");
  return {};
}

Status check_names(const Diff& diff, const LimitRule& rule) {
  if (rule.subject == Subject::syscall || rule.subject == Subject::program) return {};
  std::vector<std::string> globs = path_globs(rule.pattern);
  globs.push_back(rule.caller);
  for (const std::string& glob : globs) {
    if (glob.empty() || has_wildcard(glob)) continue;
    const auto named = [&](const auto& c) {
      return rule.subject == Subject::module ? matches_glob(glob, file_name(c.at.module))
                                             : names_function(glob, c.at.function, c.linkage_name);
    };
    const bool inlined = std::ranges::any_of(diff.inlined, named);
    if (rule.subject == Subject::inlined ? inlined : std::ranges::any_of(diff.functions, named))
      continue;
    if (rule.subject == Subject::function && inlined)
      return fail("limit {}: {} was inlined; its limit is inlined:{}:instructions", rule.text, glob,
                  glob);
    return fail("limit {}: neither profile has {} {}", rule.text,
                rule.subject == Subject::module    ? "a file"
                : rule.subject == Subject::inlined ? "an inlined function"
                                                   : "a function",
                glob);
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
      "instructions<=+1%", "function:*:instructions<=+3%@0.1%", "warn:path-share:*<=+1%",
      "warn:load:*:misses<=+25%@1%", "warn:syscalls<=+10%"};
  return kRules;
}

Sensitivity sensitivity(const Diff& diff, const std::vector<LimitRule>& rules) {
  Sensitivity best;
  double most = 0;
  bool sees = false, all_absolute = true;
  for (const LimitRule& rule : rules) {
    if (!check_profiles(diff, rule)) continue;
    const bool decides = rule.severity == Severity::error;
    if (decides && rule.bound != Bound::absolute) all_absolute = false;
    const std::vector<Judged> judged = judged_by(diff, rule);
    const double critical = critical_for(diff, rule, judged, rules.size());
    double all = 0, seen = 0;  // what there was before
    for (const Judged& j : judged) {
      const auto base = static_cast<double>(j.change.base);
      const double visible = visible_change(rule, j, critical);
      if (rule.bound == Bound::absolute || !j.in_base) continue;
      all += base;
      if (j.change.now == 0 || j.error <= 0 || !(visible <= base)) continue;
      seen += base;
      if (base <= most) continue;
      most = base;
      best.subject = metric_name(rule.metric) + (j.name.empty() ? "" : " " + j.name);
      best.change = visible / base;
      best.part = j.whole.base == 0 ? 0 : base / static_cast<double>(j.whole.base);
    }
    sees |= decides && seen > 0 && 2 * seen >= all;
  }
  best.decidable = sees || all_absolute;
  return best;
}

Result<std::vector<Finding>> check_limits(const Diff& diff, const std::vector<LimitRule>& rules) {
  std::vector<Finding> findings;
  for (const LimitRule& rule : rules) {
    const Status profiled = check_profiles(diff, rule);
    if (!profiled && rule.where_profiled) continue;
    SP_TRY(profiled);
    SP_TRY(check_names(diff, rule));
    std::vector<Judged> judged = judged_by(diff, rule);
    const double critical = critical_for(diff, rule, judged, rules.size());
    std::erase_if(judged,
                  [&](const Judged& j) { return !is_violated(rule, j, diff.exact, critical); });
    std::stable_sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) {
      return std::abs(a.change.delta()) > std::abs(b.change.delta());
    });
    for (const Judged& j : judged) findings.push_back(finding_for(rule, j));
  }
  return findings;
}

}  // namespace shadowprof::profile
