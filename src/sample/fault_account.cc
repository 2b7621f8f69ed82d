// SPDX-License-Identifier: MIT
#include "sample/fault_account.h"

#include <algorithm>
#include <utility>

namespace shadowprof::sample {
namespace {

double more(uint64_t now, uint64_t before) {
  return now > before ? static_cast<double>(now - before) : 0;
}

}  // namespace

double FaultAccount::ours(double now, const FaultMarks& marks) const {
  const double own = std::max(rate_ * (now - event_at_), more(marks.pages, before_.pages));
  return std::clamp(more(marks.faults, before_.faults) - own, 0.0,
                    static_cast<double>(before_.pages));
}

void FaultAccount::begin(double now, const FaultMarks& marks, SampleCost& cost) {
  const bool is_first = event_at_ <= 0;
  const double gap = now - event_at_;
  if (alive_++ != 0) {
    unclaimed_ += ours(now, marks);
  } else if (!is_first && gap > 0) {
    // It rises slowly: a burst of faults is rather ours than the program's.
    const double rate = more(marks.faults, before_.faults) / gap;
    rate_ = rate_ == 0 ? rate : std::min(1.1 * rate_ + 1, rate);
    cost.faults_afterwards = std::exchange(unclaimed_afterwards_, 0) + ours(now, marks);
  }
  before_ = marks;
  event_at_ = now;
}

void FaultAccount::end(double now, const FaultMarks& marks, SampleCost& cost) {
  alive_--;
  cost.faults_while_alive = std::exchange(unclaimed_, 0) + ours(now, marks);
  before_ = marks;
  event_at_ = now;
}

void FaultAccount::failed(const SampleCost& cost) {
  alive_--;
  unclaimed_afterwards_ += cost.faults_afterwards;
}

}  // namespace shadowprof::sample
