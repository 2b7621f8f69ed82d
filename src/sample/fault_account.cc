// SPDX-License-Identifier: MIT
#include "sample/fault_account.h"

#include <algorithm>
#include <utility>

namespace shadowprof::sample {
namespace {

// Seconds, of which a program's own faults are the mean.
constexpr double kMemory_s = 2;
// A program of more than so many times the pages may write to all the others.
constexpr double kSaysOfRatio = 4;
constexpr double kResemblesRatio = 2;

double more(uint64_t now, uint64_t before) {
  return now > before ? static_cast<double>(now - before) : 0;
}

}  // namespace

// Faults since the last event that did not give it pages that it still has.
double FaultAccount::beyond_growth(const FaultMarks& marks) const {
  return std::max(0.0, more(marks.faults, before_.faults) - more(marks.resident, before_.resident));
}

double FaultAccount::ours(double now, const FaultMarks& marks) const {
  return std::clamp(beyond_growth(marks) - rate_ * (now - event_at_), 0.0, most_ours_);
}

double FaultAccount::settle(double now, const FaultMarks& marks) {
  if (alive_ != 0) return 0;
  const double gap = now - event_at_;
  double left = 0;
  if (event_at_ > 0 && gap > 0) {
    const double faults = beyond_growth(marks);
    left = std::min(faults, most_ours_);
    if (marks.reused && before_.reused) left = std::min(left, more(*marks.reused, *before_.reused));
    rate_ += ((faults - left) / gap - rate_) * std::min(1.0, gap / kMemory_s);
  }
  pass(now, marks, left);
  return left;
}

// `ours` are known now.
void FaultAccount::pass(double now, const FaultMarks& marks, double ours) {
  last_ours_ += ours;
  most_ours_ -= ours;
  before_ = marks;
  event_at_ = now;
}

void FaultAccount::begin(double now, const FaultMarks& marks) {
  if (alive_++ != 0) unclaimed_ += ours(now, marks);
  pass(now, marks, 0);
  last_ours_ = 0;
  last_pages_ = most_ours_ = static_cast<double>(marks.pages);
}

double FaultAccount::end(double now, const FaultMarks& marks) {
  alive_--;
  const double since = ours(now, marks);
  pass(now, marks, since);
  return std::exchange(unclaimed_, 0) + since;
}

bool FaultAccount::resembles_last(uint64_t pages) const {
  return static_cast<double>(pages) <= kResemblesRatio * last_pages_;
}

double FaultAccount::expected(uint64_t pages, double ours) const {
  const double known = std::min(static_cast<double>(pages), kSaysOfRatio * last_pages_);
  const double share = last_pages_ > 0 ? std::min(1.0, (last_ours_ + ours) / last_pages_) : 0;
  return share * known + static_cast<double>(pages) - known;
}

}  // namespace shadowprof::sample
