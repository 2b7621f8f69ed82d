// SPDX-License-Identifier: MIT
#include "report/leads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "profile/evidence.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

using profile::Place;
using profile::Profile;

constexpr double kMostlyShare = 0.9;  // "mostly", of values, arguments and targets
// Assumed cycles: a division in the middle of its widths, and a call through a pointer that is
// predicted well.
constexpr double kDivision_cycles = 18;
constexpr double kPointerCall_cycles = 3;
// A function whose instructions take so many cycles in the mean, and so many times the program's,
// waits for something.
constexpr double kWaits_cycles = 4;
constexpr double kSlowRatio = 1.5;
constexpr double kKernelShare = 0.1;
constexpr double kWaitingShare = 0.3;
constexpr double kFromMemoryShare = 0.3;  // of a load's executions

constexpr size_t kPlaceColumns = 60;

using FunctionKey = std::pair<std::string, uint64_t>;

class Search {
 public:
  explicit Search(const Profile& profile) : profile_(profile) {
    const profile::Coverage& c = profile.coverage;
    if (c.estimated && c.instructions_profiled != 0)
      scale_ =
          static_cast<double>(c.instructions_total) / static_cast<double>(c.instructions_profiled);
    const profile::ProcessorTime& time = profile.time;
    if (time.is_known()) {
      all_cycles_ = time.seconds() * time.cycles_per_s;
    } else {
      all_cycles_ = static_cast<double>(c.instructions_total);
      for (const profile::HotLoad& load : profile.hotlists.load_latency)
        all_cycles_ += scale_ * load.lost_cycles;
    }
    for (const profile::HotMethod& m : profile.hotlists.methods)
      functions_[{m.at.module, m.at.offset}] = &m;
  }

  std::vector<Lead> all() {
    if (all_cycles_ <= 0) return {};
    loads();
    arguments();
    values();
    pointer_calls();
    slow_functions();
    if (profile_.time.is_known()) {
      kernel();
      waiting();
    }
    return std::move(leads_);
  }

 private:
  double share_of_cycles(double count, double cycles) const {
    return scale_ * count * cycles / all_cycles_;
  }
  // By time where it is known.
  double share_of(const profile::HotMethod& m) const {
    return profile_.time.is_known() ? m.time.share : m.self_share;
  }
  bool is_certain(const profile::HotMethod& m) const {
    return profile_.time.is_known() ? profile::is_certain(m.time.share, m.time.error)
                                    : profile::is_certain(m.self_share, m.self_share_error);
  }
  // That has the place; the hotlist's functions only.
  const profile::HotMethod* function_of(const Place& at) const {
    auto next = functions_.upper_bound({at.module, at.offset});
    if (next == functions_.begin()) return nullptr;
    const profile::HotMethod* m = std::prev(next)->second;
    const bool same = m->at.module == at.module && m->at.function == at.function;
    return same && !at.function.empty() ? m : nullptr;
  }
  void add(double stake, std::optional<Place> at, std::string text) {
    if (stake >= kLeastStakeShare) leads_.push_back({stake, std::move(at), std::move(text)});
  }

  void loads();
  void arguments();
  void values();
  void pointer_calls();
  void slow_functions();
  void kernel();
  void waiting();

  const Profile& profile_;
  double scale_ = 1;  // executions for each one that was recorded
  double all_cycles_ = 0;
  std::map<FunctionKey, const profile::HotMethod*> functions_;
  std::map<const profile::HotMethod*, double> explained_;  // by loads: of the program's time
  std::vector<Lead> leads_;
};

std::string remedy(const profile::HotLoad& load) {
  if (load.stride != 0 && load.classes[3] > kFromMemoryShare)
    return fmt::format("; its addresses are {} apart: prefetch", load.stride);
  if (load.classes[3] > kFromMemoryShare)
    return "; put what is used together into one line, or prefetch";
  return "; make what it works on smaller, or work on less at a time";
}

void Search::loads() {
  for (const profile::HotLoad& load : profile_.hotlists.load_latency) {
    const double error = std::max(load.mean_error, load.cold_error);
    if (load.lost_cycles <= 0 || error > load.mean_cycles / 2) continue;
    double stake = scale_ * load.lost_cycles / all_cycles_;
    const profile::HotMethod* m = function_of(load.at);
    if (m != nullptr && profile_.time.is_known()) stake = std::min(stake, m->time.share);
    if (m != nullptr) explained_[m] += stake;
    const double memory = load.classes[3], l3 = load.classes[2];
    const std::string from =
        memory > kFromMemoryShare
            ? fmt::format("{} of the time from memory", percent(memory))
            : fmt::format("{} of the time from the L3 cache or memory", percent(memory + l3));
    add(stake, load.at,
        fmt::format("the load takes {:.0f} cycles, {}{}", load.mean_cycles, from, remedy(load)));
  }
}

// One for each function: the others of its arguments come with the same calls.
void Search::arguments() {
  std::map<const profile::HotMethod*, Lead> best;
  for (const profile::HotArgument& a : profile_.hotlists.arguments) {
    if (a.is_address || a.advice.empty() || a.figures.values.empty()) continue;
    const double lowest = a.figures.invariance - a.figures.invariance_error.value_or(0);
    const auto found = functions_.find({a.callee.module, a.callee.offset});
    if (lowest < kMostlyShare || found == functions_.end()) continue;
    const profile::HotMethod& m = *found->second;
    if (m.invocations == 0 || !is_certain(m)) continue;
    const double calls =
        std::min(1.0, static_cast<double>(a.figures.count) / static_cast<double>(m.invocations));
    Lead lead{calls * a.figures.invariance * share_of(m), a.site,
              fmt::format("{} of these calls of {} pass {} in {}; {}",
                          percent(a.figures.invariance), function_or_address(a.callee),
                          profile::value_text(a.type(), a.figures.values[0].value),
                          printable(a.reg), printable(a.advice))};
    Lead& kept = best[&m];
    if (lead.stake > kept.stake) kept = std::move(lead);
  }
  for (auto& [function, lead] : best) add(lead.stake, std::move(lead.at), std::move(lead.text));
}

void Search::values() {
  for (const profile::HotValue& v : profile_.hotlists.values) {
    if (!v.semi_invariant || v.is_address || v.advice.empty() || v.figures.values.empty()) continue;
    const bool divides = v.disassembly.find("div") != std::string::npos;
    const double stake =
        share_of_cycles(static_cast<double>(v.figures.count), divides ? kDivision_cycles : 1);
    add(stake, v.at,
        fmt::format("{} gives {} in {}; {}", printable(v.disassembly),
                    profile::value_text(v.type, v.figures.values[0].value),
                    percent(v.figures.invariance), printable(v.advice)));
  }
}

void Search::pointer_calls() {
  for (const profile::HotTargets& t : profile_.hotlists.targets) {
    if (t.kind != profile::EdgeKind::indirect_call || t.targets.empty()) continue;
    if (t.targets[0].share < kMostlyShare) continue;
    add(share_of_cycles(static_cast<double>(t.count), kPointerCall_cycles), t.at,
        fmt::format("the call through a pointer goes to {} in {}; call it directly, or test for "
                    "it first",
                    function_or_address(t.targets[0].to), percent(t.targets[0].share)));
  }
}

void Search::slow_functions() {
  const double usual = all_cycles_ / static_cast<double>(std::max<uint64_t>(
                                         1, profile_.coverage.instructions_total));
  for (const profile::HotMethod& m : profile_.hotlists.methods) {
    const double cycles = m.time.cycles_per_insn;
    if (cycles < std::max(kWaits_cycles, kSlowRatio * usual) || !is_certain(m) ||
        explained_[&m] > m.time.share / 2)
      continue;
    add(m.time.share, m.at,
        fmt::format("has {} of the time with {} of the instructions: each takes {:.1f} cycles, so "
                    "it waits; look at its loads and divisions",
                    percent(m.time.share), percent(m.self_share), cycles));
  }
}

void Search::kernel() {
  const double all_s = profile_.time.seconds();
  for (const profile::HotMethod& m : profile_.hotlists.methods) {
    const double share = m.time.kernel_s / all_s;
    if (share < kKernelShare || !profile::is_certain(share, profile_.time.error_of(share)))
      continue;
    add(share, m.at,
        "the kernel works so much of the time for this function: system calls or page faults");
  }
}

void Search::waiting() {
  const profile::ProcessorTime& time = profile_.time;
  const double duration_s = profile_.run.duration_s;
  if (duration_s <= 0) return;
  const double queued = time.queued_s / duration_s;
  const double other = time.waiting_s / duration_s - queued;
  if (queued >= kWaitingShare)
    add(queued, std::nullopt, "the first thread waits so long for a processor: others have them");
  if (other >= kWaitingShare)
    add(other, std::nullopt,
        "the first thread waits so long for input, a lock, or the end of a sleep");
}

}  // namespace

const char* unit_of_stakes(const Profile& profile) {
  return profile.time.is_known() ? "time" : "cycles";
}

std::string sentence_of(const Lead& lead, const Profile& profile) {
  return fmt::format("{} of the {} are at stake: {}{}", percent(lead.stake),
                     unit_of_stakes(profile), lead.at ? point(*lead.at, kPlaceColumns) + ": " : "",
                     lead.text);
}

std::vector<Lead> find_leads(const Profile& profile, size_t limit) {
  if (!profile::evidence_of(profile).enough) return {};
  std::vector<Lead> leads = Search(profile).all();
  std::ranges::stable_sort(leads, std::greater{}, &Lead::stake);
  if (leads.size() > limit) leads.resize(limit);
  return leads;
}

}  // namespace shadowprof::report
