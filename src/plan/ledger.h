// SPDX-License-Identifier: MIT
//
// What profiling has cost the program, by cause, and what it may still cost. Nothing else knows
// --max-overhead, and nothing is spent that is not written down here.
//
//   allowed     the budget's share of the time since profiling began
//   unspent     allowed, less all that was spent by choice
//   a loan      a step that costs no more than kLoan_s' budget may be taken so much sooner
//
// Signals are not by choice: what they cost is written down, and takes nothing from the budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plan/plan_limits.h"
#include "plan/prices.h"

namespace shadowprof::plan {

enum class Cause : uint8_t {
  pause,         // the program stood still: forks, bursts
  copied_pages,  // page faults while a replica had the page, too
  kept_pages,    // page faults when it was dead
  busy_core,     // a core beside the program's was busy, or no core was idle
  shared_core,   // the replica ran on the program's core
  cache,         // assumed: a replica that works uses the program's caches
  input_log,     // its system calls stopped for a replica
  peek,          // it stood still to be looked at
  clock,         // interrupts and timers of the clock of its processor time
  signals,       // assumed: a thread that is traced stands still when it is sent one
};
inline constexpr size_t kCauses = static_cast<size_t>(Cause::signals) + 1;

const char* name_of(Cause cause);

class Ledger {
 public:
  // Nothing is allowed before `begins_s`.
  Ledger(double max_overhead_share, double begins_s)
      : share_(max_overhead_share), begins_s_(begins_s) {}

  void spend(Cause cause, double seconds) { by_cause_[static_cast<size_t>(cause)] += seconds; }
  // The programs were sent so many in all.
  void charge_signals(uint64_t so_far, const Prices& prices);
  // It was not spent.
  void take_back(Cause cause, double seconds) { spend(cause, -seconds); }

  double share() const { return share_; }
  // From now on; what was allowed before stays.
  void set_share(double max_overhead_share, double now_s);
  double spent_s() const;
  double spent_s(Cause cause) const { return by_cause_[static_cast<size_t>(cause)]; }
  double unspent_s(double now_s) const;
  // From then on something that costs so much is paid for; or so much of the budget alone pays for
  // it.
  double pays_at_s(double price_s) const {
    return begins_s_ + (spent_by_choice_s() + price_s) / share_;
  }
  // With the loan.
  double lends_at_s(double price_s) const;
  double spent_share(double now_s) const { return now_s > 0 ? spent_s() / now_s : 0; }

 private:
  double spent_by_choice_s() const { return spent_s() - spent_s(Cause::signals); }

  double share_;
  double begins_s_;
  uint64_t signals_ = 0;
  std::array<double, kCauses> by_cause_{};
};

}  // namespace shadowprof::plan
