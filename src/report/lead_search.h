// SPDX-License-Identifier: MIT
//
// The search for leads (leads.h): what all kinds of them ask a profile. The kinds are in
// leads_of_data.cc and leads_of_flow.cc. Rows may be many thousands: what little is at stake for is
// left before anything is looked up for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profile/evidence.h"
#include "report/code_facts.h"
#include "report/columns.h"
#include "report/leads.h"

namespace shadowprof::report {

inline constexpr double kMostlyShare = 0.9;  // "mostly", of values, arguments and targets
inline constexpr size_t kPlaceColumns = 60;
inline constexpr int kMostCallers = 8;  // that calls are followed through, up or down

// What calls from one place pass.
struct Passed {
  const profile::HotMethod* callee = nullptr;
  const profile::HotArgument* argument = nullptr;
  double stake = 0;
};

class LeadSearch {
 public:
  // Among the rows of `lists`. All must outlive this.
  LeadSearch(const profile::Profile& profile, const profile::Hotlists& lists,
             const CodeFacts& code);
  // In no order.
  std::vector<Lead> all();

 private:
  using PlaceKey = std::pair<std::string, uint64_t>;  // module, offset
  double share_of_cycles(uint64_t count, double cycles) const {
    return scale_ * static_cast<double>(count) * cycles / all_cycles_;
  }
  std::string said(const profile::Place& place) const {
    return point(code_.with_line(place), kPlaceColumns);
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
  const profile::HotMethod* function_of(const profile::Place& at) const;
  double instructions_of(const profile::HotMethod& m) const {
    return m.self_share * static_cast<double>(profile_.coverage.instructions_total);
  }
  // Cycles that one of its instructions takes, but no more than a cycle.
  double cycles_of_instruction(const profile::HotMethod* m) const;
  double time_to_wait_of(const profile::HotMethod& m) const;
  double most_at_stake(const profile::Place& at) const;
  double share_with_helpers(const profile::HotMethod& m, int deep = kMostCallers) const;
  std::optional<Passed> passed_by(const profile::HotArgument& a) const;
  const profile::HotCallPair* main_call_of(const profile::HotMethod& m) const;
  std::string called_from(const profile::HotMethod* m) const;
  // One of each function, the best, which says how many others there are.
  struct Best {
    Lead lead;
    size_t others = 0;
  };
  using BestOfFunctions = std::map<std::pair<std::string, std::string>, Best>;
  static void join(BestOfFunctions& best, Lead lead);
  void add_best(BestOfFunctions best);
  void add(double stake, std::optional<profile::Place> at, std::string text) {
    if (stake < kLeastStakeShare) return;
    if (at) at = code_.with_line(std::move(*at));
    leads_.push_back({stake, std::move(at), std::move(text)});
  }

  // Rows of the table; none where the place is not known.
  std::span<const profile::Edge> edges_from(const profile::Place& branch) const;
  bool is_certain_branch(const profile::Place& at) const;
  uint64_t times_not_taken(const profile::Place& branch) const;

  void loads();
  void load_that_may_be_slow(const profile::LatencyCalibration& host);
  void arguments();
  void values();
  void sharing();
  void waste();
  void branches();
  void pointer_calls();
  void calls_in_loops();
  void slow_functions();
  void kernel();
  void waiting();

  const profile::Profile& profile_;
  const profile::Hotlists& lists_;
  const CodeFacts& code_;
  double scale_ = 1;  // executions for each one that was recorded
  double all_cycles_ = 0;
  std::map<PlaceKey, const profile::HotMethod*> functions_;
  std::map<const profile::HotMethod*, std::vector<const profile::HotCallPair*>> calls_of_;
  // Functions that only it calls, from one place, with that call.
  std::map<const profile::HotMethod*,
           std::vector<std::pair<const profile::HotMethod*, const profile::HotCallPair*>>>
      helpers_of_;
  std::map<const profile::HotMethod*, double> explained_;  // by loads: of the program's time
  std::vector<Lead> leads_;
};

}  // namespace shadowprof::report
