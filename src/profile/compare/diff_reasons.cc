// SPDX-License-Identifier: MIT
#include "profile/compare/diff_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/file_name.h"
#include "profile/confidence.h"

namespace shadowprof::profile {
namespace {

// A part explains a change from here on.
constexpr double kMostShare = 0.5;
// Ways of a branch that differ by less are the same.
constexpr double kSameShare = 0.001;

double explained(double part, const Change& whole) {
  const auto delta = static_cast<double>(whole.delta());
  return delta == 0 ? 0 : part / delta;
}

std::string more_or_fewer(int64_t delta, std::string_view what) {
  const auto size =
      delta < 0 ? uint64_t{0} - static_cast<uint64_t>(delta) : static_cast<uint64_t>(delta);
  return fmt::format("{} {} {}{}", size, delta < 0 ? "fewer" : "more", what, size == 1 ? "" : "s");
}

std::string at_line(const Place& at) {
  if (at.line == 0) return fmt::format(" at {:#x}", at.offset);
  return fmt::format(" at {}:{}", file_name(at.file), at.line);
}

// All conditional branches of one line (or place, where no line is known) together.
struct Branch {
  Place at;
  Change taken;
  Change not_taken;

  Change total() const { return {taken.base + not_taken.base, taken.now + not_taken.now}; }
  double share(uint64_t Change::*side) const {
    const double all = static_cast<double>(total().*side);
    return all == 0 ? 0 : static_cast<double>(taken.*side) / all;
  }
  // Executions that go another way than they did.
  double moved() const {
    return std::abs(share(&Change::now) - share(&Change::base)) *
           static_cast<double>(std::min(total().base, total().now));
  }
  // The compiler has turned it round: what fell through jumps now.
  bool is_mirrored() const {
    return std::abs(share(&Change::now) + share(&Change::base) - 1) < kSameShare;
  }
};

// What the lists have of one function.
struct Facts {
  std::map<std::pair<std::string, uint64_t>, Branch> branches;  // by file, line (or "", offset)
  Change jumps;
  std::map<std::string, Change> callers;
  std::map<std::string, Place> call_sites;  // by caller
  std::vector<const LineChange*> lines;
  std::map<std::string, Change> inlined;  // instructions of it that are another function's code
};

void add(Change& sum, const Change& c) {
  sum.base += c.base;
  sum.now += c.now;
}

class Reasons {
 public:
  Reasons(const Profile& base, const Profile& now, const Diff& diff) {
    for (const TransferChange& c : diff.edges) add_edge(c);
    for (const TransferChange& c : diff.call_pairs) {
      Facts& callee = facts_[c.to.function];
      add(callee.callers[c.from.function], c.count);
      callee.call_sites.try_emplace(c.from.function, c.from);
    }
    for (const LineChange& c : diff.lines)
      if (c.instructions.delta() != 0) facts_[c.function].lines.push_back(&c);
    for (const FunctionChange& c : diff.functions) add_function(c);
    if (!diff.has_inlined) return;
    add_inlined(base, &Change::base);
    add_inlined(now, &Change::now);
  }

  Reason of(const FunctionChange& c) const {
    static const Facts kNone;
    const auto found = facts_.find(c.at.function);
    const Facts& facts = found == facts_.end() ? kNone : found->second;
    if (c.self.delta() == 0) return because_of_branches(c, facts);
    using Explanation = Reason (Reasons::*)(const FunctionChange&, const Facts&) const;
    constexpr Explanation kInOrder[] = {
        &Reasons::because_it_is_inlined, &Reasons::because_of_another_callee,
        &Reasons::because_of_presence,   &Reasons::because_of_calls,
        &Reasons::because_of_inlining,   &Reasons::because_of_new_code,
        &Reasons::because_of_layout,     &Reasons::because_of_loops,
        &Reasons::because_of_branches,   &Reasons::because_of_code};
    for (const Explanation explain : kInOrder)
      if (Reason reason = (this->*explain)(c, facts); reason.kind != ReasonKind::unknown)
        return reason;
    return {};
  }

 private:
  void add_edge(const TransferChange& c) {
    Facts& facts = facts_[c.from.function];
    if (c.kind == EdgeKind::jump) add(facts.jumps, c.count);
    if (c.kind != EdgeKind::taken && c.kind != EdgeKind::not_taken) return;
    const bool has_line = c.from.line != 0;
    Branch& branch =
        facts.branches[{has_line ? c.from.file : "", has_line ? c.from.line : c.from.offset}];
    branch.at = c.from;
    add(c.kind == EdgeKind::taken ? branch.taken : branch.not_taken, c.count);
  }

  void add_inlined(const Profile& p, uint64_t Change::*side) {
    for (const InlinedFunction& f : p.inlined) {
      for (const InlinedPlace& place : f.places) {
        const Function* into = find_function(p.functions, {f.module, place.function});
        if (into == nullptr) continue;
        facts_[into->name].inlined[f.name].*side += place.self;
        hosts_[f.name][into->name].*side += place.self;
      }
    }
  }

  void add_function(const FunctionChange& c) {
    by_name_[c.at.function] = &c;
    if (c.presence == Presence::both) return;
    const bool added = c.presence == Presence::added;
    const auto found = facts_.find(c.at.function);
    if (found == facts_.end()) return;
    for (const auto& [caller, calls] : found->second.callers)
      if ((added ? calls.base : calls.now) == 0)
        (added ? added_ : removed_)[caller].emplace_back(c.at.function,
                                                         added ? calls.now : calls.base);
  }

  // The function that most of `name`'s inlined code is in, on one side only.
  std::string host_only(const std::string& name, bool now) const {
    const auto found = hosts_.find(name);
    if (found == hosts_.end()) return "";
    std::string best;
    uint64_t most = 0;
    for (const auto& [host, self] : found->second) {
      const uint64_t there = now ? self.now : self.base;
      if ((now ? self.base : self.now) != 0 || there <= most) continue;
      most = there;
      best = host;
    }
    return best;
  }

  Reason because_it_is_inlined(const FunctionChange& c, const Facts&) const {
    if (c.presence == Presence::both && c.invocations.delta() == 0) return {};
    const bool fewer = c.self.delta() < 0;
    const std::string host = host_only(c.at.function, fewer);
    if (host.empty()) return {};
    return {ReasonKind::inlining, fewer ? fmt::format("it is inlined into {} now", host)
                                        : fmt::format("it is no longer inlined into {}", host)};
  }

  // A caller stopped calling one function and began to call the other one, about as often.
  Reason because_of_another_callee(const FunctionChange& c, const Facts& facts) const {
    if (c.presence == Presence::both) return {};
    const bool added = c.presence == Presence::added;
    for (const auto& [caller, calls] : facts.callers) {
      if ((added ? calls.base : calls.now) != 0) continue;
      const auto replaced = (added ? removed_ : added_).find(caller);
      if (replaced == (added ? removed_ : added_).end()) continue;
      for (const auto& [other, theirs] : replaced->second) {
        const auto there = static_cast<double>(theirs);
        const auto here = static_cast<double>(added ? calls.now : calls.base);
        if (std::min(there, here) < kMostShare * std::max(there, here)) continue;
        return {ReasonKind::callee,
                added ? fmt::format("{} calls it in the place of {}", caller, other)
                      : fmt::format("{} calls {} in its place", caller, other)};
      }
    }
    return {};
  }

  Reason because_of_calls(const FunctionChange& c, const Facts& facts) const {
    const int64_t more = c.invocations.delta();
    if (more == 0 || c.invocations.base == 0) return {};
    const double each = static_cast<double>(c.self.base) / static_cast<double>(c.invocations.base);
    if (explained(static_cast<double>(more) * each, c.self) < kMostShare) return {};
    const auto most = std::ranges::max_element(facts.callers, {}, [&](const auto& caller) {
      return more > 0 ? caller.second.delta() : -caller.second.delta();
    });
    // A callee that is reached by a jump has callers whose calls did not change.
    const bool known = most != facts.callers.end() && most->second.delta() != 0 &&
                       (most->second.delta() > 0) == (more > 0);
    std::string text = more_or_fewer(known ? most->second.delta() : more, "call");
    if (known) {
      text += fmt::format(" from {}", most->first);
      if (most->second.base == 0) text += ", which did not call it before";
      text += at_line(facts.call_sites.at(most->first));
    }
    return {ReasonKind::calls, text};
  }

  Reason because_of_presence(const FunctionChange& c, const Facts&) const {
    if (c.presence == Presence::added) return {ReasonKind::added, "it was not executed before"};
    if (c.presence == Presence::removed || c.self.now == 0)
      return {ReasonKind::removed, "it is not executed any more"};
    return {};
  }

  Reason because_of_inlining(const FunctionChange& c, const Facts& facts) const {
    for (const auto& [name, self] : facts.inlined) {
      if ((self.base == 0) == (self.now == 0)) continue;
      if (explained(static_cast<double>(self.delta()), c.self) < kMostShare) continue;
      // Its own code has changed places with it, or the line is simply new.
      const auto out_of_line = by_name_.find(name);
      if (out_of_line == by_name_.end() || out_of_line->second->invocations.delta() == 0) continue;
      return {ReasonKind::inlining, self.base == 0
                                        ? fmt::format("{} is inlined into it now", name)
                                        : fmt::format("{} is no longer inlined into it", name)};
    }
    return {};
  }

  // The line with the largest part of the change, if it is most of it.
  static const LineChange* main_line(const FunctionChange& c, const Facts& facts) {
    const auto most = std::ranges::max_element(facts.lines, {}, [&](const LineChange* line) {
      return explained(static_cast<double>(line->instructions.delta()), c.self);
    });
    return most == facts.lines.end() ? nullptr : *most;
  }

  Reason because_of_new_code(const FunctionChange& c, const Facts& facts) const {
    const LineChange* line = main_line(c, facts);
    if (line == nullptr) return {};
    const Change& self = line->instructions;
    if ((self.base != 0 && self.now != 0) ||
        explained(static_cast<double>(self.delta()), c.self) < kMostShare)
      return {};
    const Place at{"", 0, "", line->file, line->line};
    return {ReasonKind::code,
            self.base == 0 ? "new code" + at_line(at) : "code is gone" + at_line(at)};
  }

  Reason because_of_layout(const FunctionChange& c, const Facts& facts) const {
    if (c.invocations.delta() != 0 || c.loop_iterations.delta() != 0) return {};
    if (facts.jumps.delta() != c.self.delta()) return {};
    for (const auto& [key, branch] : facts.branches)
      if (branch.total().delta() != 0 || (branch.moved() >= 1 && !branch.is_mirrored())) return {};
    return {ReasonKind::layout, "code layout only: " + more_or_fewer(facts.jumps.delta(), "jump")};
  }

  Reason because_of_loops(const FunctionChange& c, const Facts& facts) const {
    const int64_t more = c.loop_iterations.delta();
    if (more == 0 || c.loop_iterations.base == 0 || (more > 0) != (c.self.delta() > 0)) return {};
    const auto most = std::ranges::max_element(facts.branches, {}, [&](const auto& branch) {
      const int64_t taken = branch.second.taken.delta();
      return more > 0 ? taken : -taken;
    });
    if (most == facts.branches.end() || most->second.taken.delta() == 0) return {};
    return {ReasonKind::path, "another path: " + more_or_fewer(more, "time") + " round its loops" +
                                  at_line(most->second.at)};
  }

  Reason because_of_branches(const FunctionChange&, const Facts& facts) const {
    const auto most = std::ranges::max_element(
        facts.branches, {}, [](const auto& branch) { return branch.second.moved(); });
    if (most == facts.branches.end()) return {};
    const Branch& branch = most->second;
    const double before = branch.share(&Change::base);
    const double now = branch.share(&Change::now);
    if (std::abs(now - before) < kSameShare || branch.is_mirrored() || branch.moved() < 1)
      return {};
    return {ReasonKind::path,
            fmt::format("another path: the branch{} taken in {:.1f} %, before {:.1f} %",
                        at_line(branch.at), 100 * now, 100 * before)};
  }

  Reason because_of_code(const FunctionChange& c, const Facts& facts) const {
    const LineChange* line = main_line(c, facts);
    if (line == nullptr || explained(static_cast<double>(line->instructions.delta()), c.self) <= 0)
      return {};
    const Place at{"", 0, "", line->file, line->line};
    return {
        ReasonKind::code,
        "its code does " + more_or_fewer(line->instructions.delta(), "instruction") + at_line(at)};
  }

  std::unordered_map<std::string, Facts> facts_;
  std::unordered_map<std::string, const FunctionChange*> by_name_;
  // By caller: what it calls on one side only, and how often.
  using Callees = std::unordered_map<std::string, std::vector<std::pair<std::string, uint64_t>>>;
  Callees added_, removed_;
  // Functions that were inlined, by what they were inlined into.
  std::unordered_map<std::string, std::map<std::string, Change>> hosts_;
};

}  // namespace

const char* to_string(ReasonKind kind) {
  constexpr const char* kNames[] = {"unknown", "calls",    "callee", "path",   "code",
                                    "layout",  "inlining", "added",  "removed"};
  return kNames[static_cast<size_t>(kind)];
}

void name_reasons(const Profile& base, const Profile& now, Diff& diff) {
  const Reasons reasons(base, now, diff);
  for (FunctionChange& c : diff.functions) {
    const auto delta = static_cast<double>(c.self.delta());
    const double noise = diff.exact ? 0 : critical_value(diff.error_groups()) * c.error;
    if (std::abs(delta) < noise) continue;
    c.reason = reasons.of(c);
    // Counts of both are on one scale.
    if (!diff.exact && c.reason.kind == ReasonKind::calls)
      c.reason.text += ", for as many instructions in all";
  }
}

}  // namespace shadowprof::profile
