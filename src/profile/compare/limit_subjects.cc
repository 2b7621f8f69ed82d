// SPDX-License-Identifier: MIT
#include "profile/compare/limit_subjects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/file_name.h"
#include "base/go_names.h"

namespace shadowprof::profile {

namespace {

// Names that people may write in a rule: "app::parse" and "parse" for
// "int app::parse<char>(char const*) const".
struct ShortNames {
  std::string qualified;
  std::string unqualified;
};

ShortNames short_names(std::string_view name) {
  if (has_receiver(name))
    return {std::string(name), std::string(name.substr(name.rfind('/') + 1))};
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

constexpr Change kWholeShare = {static_cast<uint64_t>(kShareUnit),
                                static_cast<uint64_t>(kShareUnit)};

// A share of all instructions. Sampled profiles are compared on the scale of the base.
Change shares(const Change& c, const Diff& diff) {
  const auto share = [](uint64_t part, uint64_t all) {
    if (all == 0) return uint64_t{0};
    return static_cast<uint64_t>(
        std::llround(static_cast<double>(part) / static_cast<double>(all) * kShareUnit));
  };
  const uint64_t now = diff.exact ? diff.instructions.now : diff.instructions.base;
  return {share(c.base, diff.instructions.base), share(c.now, now)};
}

Change metric_of(const FunctionChange& c, LimitRule::Metric metric, const Diff& diff) {
  switch (metric) {
    case LimitRule::Metric::inclusive:
      return c.inclusive;
    case LimitRule::Metric::calls:
      return c.invocations;
    case LimitRule::Metric::loops:
      return c.loop_iterations;
    case LimitRule::Metric::share: {
      return shares(c.self, diff);
    }
    default:
      break;
  }
  return c.self;
}

// With the file that it is in where no source says where it is.
std::string name_in_text(const Place& at) {
  if (!at.file.empty() || at.module.empty()) return "of " + at.function;
  return "of " + at.function + " in " + file_name(at.module);
}

// The error of other metrics than `self` is not measured; it is taken to be as large in proportion.
double error_of(double of_self, const Change& self, const Change& metric) {
  const uint64_t larger = std::max(self.base, self.now);
  if (larger == 0) return 0;
  return of_self / static_cast<double>(larger) *
         static_cast<double>(std::max(metric.base, metric.now));
}

std::string reason_in_text(const FunctionChange& c) {
  return c.reason.text.empty() ? "" : ": " + c.reason.text;
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
             diff.instructions};
    if (rule.metric == LimitRule::Metric::calls) j.whole = diff.calls;
    if (rule.metric == LimitRule::Metric::share) j.whole = kWholeShare;
    j.error = error_of(c.error, c.self, j.change);
    j.cause = reason_in_text(c);
    if (rule.metric == LimitRule::Metric::inclusive && diff.estimates_inclusive)
      j.cause += ", estimated (run --exact-inclusive)";
    all.push_back(std::move(j));
  }
  return all;
}

std::vector<Judged> judged_inlined(const Diff& diff, const LimitRule& rule) {
  std::vector<Judged> all;
  for (const InlinedChange& c : diff.inlined) {
    if (!names_function(rule.pattern, c.at.function, c.linkage_name)) continue;
    Judged j{name_in_text(c.at) + " (inlined)",
             c.at.function,
             c.at.module,
             c.at.file,
             c.at.line,
             c.presence != Presence::added,
             rule.metric == LimitRule::Metric::inclusive ? c.inclusive : c.self,
             diff.instructions};
    if (rule.metric == LimitRule::Metric::share) {
      j.change = shares(c.self, diff);
      j.whole = kWholeShare;
    }
    j.error = error_of(c.error, c.self, j.change);
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
    if (!module.empty() && file_name(c.at.module) != module) continue;
    j.function = c.at.function;
    j.module = c.at.module;
    j.file = c.at.file;
    j.line = c.at.line;
    j.cause = fmt::format(", most of it in {} ({:+}){}", name_in_text(c.at).substr(3), delta,
                          reason_in_text(c));
    return;
  }
}

// That figures which are parts of the instructions can have: groups of samples differ most where
// each is in that part as a whole, or not at all.
double most_error(const Diff& diff, const Change& change) {
  const auto of_side = [&](uint64_t figure, uint64_t whole) {
    const double share = whole == 0 ? 0 : static_cast<double>(figure) / static_cast<double>(whole);
    const double spread = std::max(0.0, share * (1 - share)) / std::max(1u, diff.groups);
    return static_cast<double>(whole) * std::sqrt(spread);
  };
  return std::hypot(of_side(change.base, diff.instructions.base),
                    of_side(change.now, diff.instructions.now));
}

std::vector<Judged> judged_modules(const Diff& diff, const LimitRule& rule) {
  std::map<std::string, Judged> by_name;
  for (const FunctionChange& c : diff.functions) {
    const std::string name = file_name(c.at.module);
    if (!matches_glob(rule.pattern, name)) continue;
    Judged& j = by_name[name];
    j.name = "in " + name;
    j.module = c.at.module;
    j.change.base += c.self.base;
    j.change.now += c.self.now;
    j.whole = diff.instructions;
    j.error += c.error;  // the same samples meet both
  }
  std::vector<Judged> all;
  for (auto& [name, j] : by_name) {
    j.in_base = j.change.base != 0;
    if (!diff.exact) j.error = std::min(j.error, most_error(diff, j.change));
    name_cause(diff, name, j);
    all.push_back(std::move(j));
  }
  return all;
}

// Whether the name in a limit means the function at a place: as it is shown, or as it is linked.
class Meaning {
 public:
  explicit Meaning(const Diff& diff) {
    for (const FunctionChange& c : diff.functions)
      linked_[{c.at.module, c.at.function}].push_back(c.linkage_name);
  }
  bool is_meant(const std::string& glob, const Place& at) const {
    if (names_function(glob, at.function, at.function)) return true;
    const auto linked = linked_.find({at.module, at.function});
    return linked != linked_.end() && std::ranges::any_of(linked->second, [&](const auto& name) {
             return names_function(glob, at.function, name);
           });
  }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> linked_;
};

// Call pairs of one caller and callee are one: it does not matter which line calls. A rule without
// a caller judges a function's calls altogether.
std::vector<Judged> judged_calls(const Diff& diff, const LimitRule& rule) {
  const Meaning names(diff);
  std::map<std::pair<std::string, std::string>, Judged> by_name;
  for (const TransferChange& c : diff.call_pairs) {
    if (!names.is_meant(rule.pattern, c.to)) continue;
    if (!rule.caller.empty() && !names.is_meant(rule.caller, c.from)) continue;
    const std::string caller = rule.caller.empty() ? "" : c.from.function;
    const auto [at, added] = by_name.try_emplace({caller, c.to.function});
    Judged& j = at->second;
    if (added) {
      j.name = "of " + c.to.function + (caller.empty() ? "" : " from " + caller);
      const Place& where = caller.empty() ? c.to : c.from;
      j.function = where.function;
      j.module = where.module;
      j.file = where.file;
      j.line = where.line;
      j.whole = diff.calls;
    }
    j.change.base += c.count.base;
    j.change.now += c.count.now;
    j.error += c.error;  // the same samples meet both
  }
  std::vector<Judged> all;
  for (auto& [name, j] : by_name) {
    j.in_base = j.change.base != 0;
    all.push_back(std::move(j));
  }
  return all;
}

Judged judged_at(const Place& at, Change change, Change whole) {
  Judged j{name_in_text(at), at.function,      at.module, at.file,
           at.line,          change.base != 0, change,    whole};
  if (at.line != 0) j.name += fmt::format(" line {}", at.line);
  return j;
}

// Some of its lines, in order.
std::string lines_in_text(const PathChange& c) {
  constexpr size_t kMostLines = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kMostLines, c.lines.size()); i++)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", c.lines[i].line);
  if (text.empty()) return fmt::format(" ({} blocks)", c.blocks);
  return fmt::format(" ({} blocks, line{} {}{})", c.blocks, c.lines.size() == 1 ? "" : "s", text,
                     c.lines.size() > kMostLines ? ", ..." : "");
}

bool goes_through(const PathChange& c, const std::vector<std::string>& globs,
                  const Meaning& names) {
  for (size_t first = 0; first + globs.size() <= c.functions.size(); first++) {
    size_t i = 0;
    while (i < globs.size() && names.is_meant(globs[i], c.functions[first + i])) i++;
    if (i == globs.size()) return true;
  }
  return false;
}

std::string path_in_text(const PathChange& c) {
  constexpr size_t kMostFunctions = 6;
  std::string text = "of path";
  for (size_t i = 0; i < std::min(kMostFunctions, c.functions.size()); i++)
    text += (i == 0 ? " " : " -> ") + c.functions[i].function;
  if (c.functions.size() > kMostFunctions) text += " -> ...";
  return text + lines_in_text(c);
}

std::vector<Judged> judged_paths(const Diff& diff, const LimitRule& rule) {
  const std::vector<std::string> globs = path_globs(rule.pattern);
  const Meaning names(diff);
  std::map<std::string, const FunctionChange*> reasons;
  for (const FunctionChange& c : diff.functions) reasons.try_emplace(c.at.function, &c);
  std::vector<Judged> all;
  for (const PathChange& c : diff.paths) {
    if (!goes_through(c, globs, names)) continue;
    Judged j = judged_at(c.at, c.instructions, diff.instructions);
    j.name = path_in_text(c);
    j.part = std::abs(static_cast<double>(c.instructions.delta()));
    j.error = c.error;
    if (const auto reason = reasons.find(c.at.function); reason != reasons.end())
      j.cause = reason_in_text(*reason->second);
    const double unit =
        diff.instructions.base == 0 ? 0 : kShareUnit / static_cast<double>(diff.instructions.base);
    if (rule.metric == LimitRule::Metric::share) {
      j.change = shares(c.instructions, diff);
      j.error *= unit;
    } else if (rule.metric == LimitRule::Metric::count) {
      j.change = c.count;
      const uint64_t larger = std::max(c.instructions.base, c.instructions.now);
      if (larger != 0)
        j.error *=
            static_cast<double>(std::max(c.count.base, c.count.now)) / static_cast<double>(larger);
    }
    all.push_back(std::move(j));
  }
  return all;
}

std::string value_in_text(const ValueChange& c) {
  const std::string insn = c.instruction.empty() ? "" : ", " + c.instruction;
  if (c.type == ValueType::integer) return fmt::format(" of value {:#x}{}", c.value, insn);
  return fmt::format(" of value {}{}", value_text(c.type, c.value), insn);
}

std::vector<Judged> judged_values(const Diff& diff, const LimitRule& rule) {
  const Meaning names(diff);
  std::vector<Judged> all;
  for (const ValueChange& c : diff.values) {
    // What does not execute any more computes no other value.
    if (c.executions.now == 0 || !names.is_meant(rule.pattern, c.at)) continue;
    Judged j = judged_at(c.at, c.invariance, diff.instructions);
    j.in_base = c.executions.base != 0;
    j.name += value_in_text(c);
    j.part = static_cast<double>(c.effect());
    j.error = c.error;
    if (!diff.exact) {
      // Values that follow one another are often equal: not more than one observation a group.
      const double p = static_cast<double>(c.invariance.base) / kShareUnit;
      j.error = kShareUnit * std::sqrt(2 * std::max(0.05, p * (1 - p)) / std::max(1u, diff.groups));
    }
    all.push_back(std::move(j));
  }
  return all;
}

std::vector<Judged> judged_loads(const Diff& diff, const LimitRule& rule) {
  const Meaning names(diff);
  std::vector<Judged> all;
  for (const LoadChange& c : diff.loads) {
    if (!names.is_meant(rule.pattern, c.at)) continue;
    const bool lost = rule.metric == LimitRule::Metric::lost;
    Judged j = judged_at(c.at, lost ? c.lost_cycles : c.misses, diff.instructions);
    j.in_base = c.executions.base != 0;
    j.part = std::abs(static_cast<double>(c.lost_cycles.delta()));
    j.error = lost ? c.error : c.miss_error;
    j.cause = fmt::format(", {:.0f} cycles on average before, {:.0f} now", c.base_mean, c.new_mean);
    all.push_back(std::move(j));
  }
  return all;
}

}  // namespace

bool is_share(LimitRule::Metric metric) {
  return metric == LimitRule::Metric::share || metric == LimitRule::Metric::invariance ||
         metric == LimitRule::Metric::misses;
}

bool names_function(std::string_view glob, const std::string& name, const std::string& linkage) {
  if (matches_glob(glob, name) || matches_glob(glob, linkage)) return true;
  const ShortNames names = short_names(name);
  return matches_glob(glob, names.qualified) || matches_glob(glob, names.unqualified);
}

std::vector<std::string> path_globs(const std::string& pattern) {
  std::vector<std::string> globs;
  size_t begin = 0;
  for (;;) {
    const size_t arrow = pattern.find("->", begin);
    globs.push_back(pattern.substr(begin, arrow - begin));
    if (arrow == std::string::npos) return globs;
    begin = arrow + 2;
  }
}

std::vector<Judged> judged_by(const Diff& diff, const LimitRule& rule) {
  // How much a sampled profile's totals are off is not known.
  const double unknown = diff.exact ? 0 : std::numeric_limits<double>::infinity();
  switch (rule.subject) {
    case LimitRule::Subject::function:
      return judged_functions(diff, rule);
    case LimitRule::Subject::inlined:
      return judged_inlined(diff, rule);
    case LimitRule::Subject::module:
      return judged_modules(diff, rule);
    case LimitRule::Subject::call:
      return judged_calls(diff, rule);
    case LimitRule::Subject::syscall: {
      std::vector<Judged> all;
      for (const SyscallChange& s : diff.syscall_names)
        if (matches_glob(rule.pattern, s.name))
          all.push_back(
              {s.name, "", "", "", 0, s.count.base != 0, s.count, diff.syscalls, {}, unknown});
      return all;
    }
    case LimitRule::Subject::path:
      return judged_paths(diff, rule);
    case LimitRule::Subject::value:
      return judged_values(diff, rule);
    case LimitRule::Subject::load:
      return judged_loads(diff, rule);
    case LimitRule::Subject::program:
      break;
  }
  Judged whole;
  whole.change = rule.metric == LimitRule::Metric::calls      ? diff.calls
                 : rule.metric == LimitRule::Metric::syscalls ? diff.syscalls
                                                   : diff.instructions;
  whole.whole = whole.change;
  whole.error = unknown;
  if (rule.metric == LimitRule::Metric::instructions) name_cause(diff, "", whole);
  return {whole};
}

}  // namespace shadowprof::profile
