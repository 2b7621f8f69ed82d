// SPDX-License-Identifier: MIT
#include "plan/ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shadowprof::plan {

const char* name_of(Cause cause) {
  static constexpr std::array<const char*, kCauses> kNames = {
      "pause", "copied_pages", "kept_pages", "busy_core", "shared_core",
      "cache", "input_log",    "peek",       "clock",     "signals"};
  return kNames[static_cast<size_t>(cause)];
}

void Ledger::charge_signals(uint64_t so_far, const Prices& prices) {
  const auto sent = static_cast<double>(so_far - std::exchange(signals_, so_far));
  spend(Cause::signals, prices.signal_s * sent);
}

void Ledger::set_share(double max_overhead_share, double now_s) {
  if (now_s > begins_s_) begins_s_ = now_s - share_ * (now_s - begins_s_) / max_overhead_share;
  share_ = max_overhead_share;
}

double Ledger::spent_s() const {
  return std::accumulate(by_cause_.begin(), by_cause_.end(), 0.0);
}

double Ledger::unspent_s(double now_s) const {
  return std::max(0.0, share_ * (now_s - begins_s_) - spent_by_choice_s());
}

double Ledger::lends_at_s(double price_s) const {
  const bool is_lent = price_s <= kLoan_s * share_;
  return pays_at_s(price_s) - (is_lent ? kLoan_s : 0);
}

}  // namespace shadowprof::plan
