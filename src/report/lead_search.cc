// SPDX-License-Identifier: MIT
#include "report/lead_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/columns.h"

namespace shadowprof::report {

using profile::Place;
using profile::Profile;

namespace {

// What runs four instructions in a cycle waits for nothing.
constexpr double kUnhindered_cycles = 0.25;
constexpr uint64_t kManyCalls = 100;  // of a function whose helpers count as part of it
constexpr double kOnce = 0.1;         // calls of a helper for each of its caller's are 1 +- that

}  // namespace

LeadSearch::LeadSearch(const Profile& profile, const profile::Hotlists& lists,
                       const CodeFacts& code)
    : profile_(profile), lists_(lists), code_(code) {
  const profile::Coverage& c = profile.coverage;
  if (c.estimated && c.instructions_profiled != 0)
    scale_ =
        static_cast<double>(c.instructions_total) / static_cast<double>(c.instructions_profiled);
  const profile::ProcessorTime& time = profile.time;
  if (time.is_known()) {
    all_cycles_ = time.seconds() * time.cycles_per_s;
  } else {
    all_cycles_ = static_cast<double>(c.instructions_total);
    for (const profile::HotLoad& load : lists.load_latency)
      all_cycles_ += scale_ * load.lost_cycles;
  }
  for (const profile::HotMethod& m : lists.methods) functions_[{m.at.module, m.at.offset}] = &m;
  for (const profile::HotCallPair& pair : lists.call_pairs) {
    const auto callee = functions_.find({pair.callee.module, pair.callee.offset});
    if (callee != functions_.end()) calls_of_[callee->second].push_back(&pair);
  }
  for (const auto& [callee, pairs] : calls_of_)
    if (pairs.size() == 1) helpers_of_[function_of(pairs[0]->site)].emplace_back(callee, pairs[0]);
}

std::vector<Lead> LeadSearch::all() {
  if (all_cycles_ <= 0) return {};
  loads();
  arguments();
  values();
  pointer_calls();
  calls_in_loops();
  slow_functions();
  branches();
  sharing();
  waste();
  if (profile_.time.is_known()) {
    kernel();
    waiting();
  }
  return std::move(leads_);
}

const profile::HotMethod* LeadSearch::function_of(const Place& at) const {
  auto next = functions_.upper_bound({at.module, at.offset});
  if (next == functions_.begin()) return nullptr;
  const profile::HotMethod* m = std::prev(next)->second;
  const bool same = m->at.module == at.module && m->at.function == at.function;
  return same && !at.function.empty() ? m : nullptr;
}

double LeadSearch::cycles_of_instruction(const profile::HotMethod* m) const {
  if (m == nullptr || !profile_.time.is_known() || instructions_of(*m) <= 0) return 1;
  return std::min(1.0, m->time.share * all_cycles_ / instructions_of(*m));
}

void LeadSearch::join(BestOfFunctions& best, Lead lead) {
  const Place& at = *lead.at;
  const auto [found, is_first] = best.try_emplace({at.module, at.function}, Best{lead});
  if (is_first) return;
  found->second.others++;
  if (lead.stake > found->second.lead.stake) found->second.lead = std::move(lead);
}

void LeadSearch::add_best(BestOfFunctions best) {
  for (auto& [function, found] : best) {
    found.lead.at = code_.with_line(std::move(*found.lead.at));
    if (found.others != 0) found.lead.text += fmt::format(" ({} more in it)", found.others);
    leads_.push_back(std::move(found.lead));
  }
}

// The share of the program's time in which a function did not execute as fast as it can: what its
// loads may have cost at most, since natively the next instructions go on where they can.
double LeadSearch::time_to_wait_of(const profile::HotMethod& m) const {
  if (!profile_.time.is_known()) return 1;
  return std::max(0.0, m.time.share - kUnhindered_cycles * instructions_of(m) / all_cycles_);
}

// What is lost in a function is no more than its time. Samples are few, and may be of a phase that
// was soon over: the clock has seen all of the program. 1 where it does not tell.
double LeadSearch::most_at_stake(const Place& at) const {
  if (!profile_.time.is_known()) return 1;
  if (const profile::HotMethod* m = function_of(at)) return m->time.share;
  const auto code = code_.code_ref(at);
  if (!code) return 1;
  const profile::Function* f = find_function(profile_.functions, *code);
  if (f == nullptr || f->name != at.function) return 1;
  return static_cast<double>(f->user_ns) / (1e9 * profile_.time.seconds());
}

// With the time of functions that only it calls, once in each of its calls: they do its work.
double LeadSearch::share_with_helpers(const profile::HotMethod& m, int deep) const {
  double share = share_of(m);
  if (m.invocations < kManyCalls || deep == 0) return share;
  const auto helpers = helpers_of_.find(&m);
  if (helpers == helpers_of_.end()) return share;
  for (const auto& [callee, call] : helpers->second) {
    const double each = static_cast<double>(call->count) / static_cast<double>(m.invocations);
    if (callee != &m && std::abs(each - 1) <= kOnce) share += share_with_helpers(*callee, deep - 1);
  }
  return share;
}

// From where nearly all of its calls come, if there is such a place.
const profile::HotCallPair* LeadSearch::main_call_of(const profile::HotMethod& m) const {
  const auto found = calls_of_.find(&m);
  if (found == calls_of_.end()) return nullptr;
  const profile::HotCallPair* most = nullptr;
  uint64_t all = 0;
  for (const profile::HotCallPair* pair : found->second) {
    all += pair->count;
    if (most == nullptr || pair->count > most->count) most = pair;
  }
  return static_cast<double>(most->count) >= kMostlyShare * static_cast<double>(all) ? most
                                                                                     : nullptr;
}

// "called from main app.c:5, " for a function of a library: who reads it can change the place that
// it is used at, not the function.
std::string LeadSearch::called_from(const profile::HotMethod* m) const {
  const std::string module = m == nullptr ? "" : m->at.module;
  for (int i = 0; m != nullptr && i < kMostCallers; i++) {
    const profile::HotCallPair* call = main_call_of(*m);
    if (call == nullptr) return "";
    if (call->site.module != module) return fmt::format("called from {}, ", said(call->site));
    m = function_of(call->site);
  }
  return "";
}

}  // namespace shadowprof::report
