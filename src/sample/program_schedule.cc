// SPDX-License-Identifier: MIT
#include "sample/program_schedule.h"

#include <algorithm>

#include "kernel/proc.h"

namespace shadowprof::sample {

void ProgramSchedule::begin(Tid process) {
  process_ = process;
  threads_.clear();
  look();
  for (auto& [thread, times] : threads_)
    for (Sum* sum : {&times.ran, &times.waited}) sum->at_begin_ns = sum->last_ns;
}

void ProgramSchedule::look() {
  const auto threads = kernel::list_threads(process_);
  if (!threads) return;  // it has ended
  for (const Tid thread : *threads)
    if (const auto now = kernel::read_schedstat(thread)) {
      Times& known = threads_[thread];
      known.ran.last_ns = std::max(known.ran.last_ns, now->used);
      known.waited.last_ns = std::max(known.waited.last_ns, now->waited);
    }
}

double ProgramSchedule::of_first(Sum Times::*sum) const {
  const auto first = threads_.find(process_);
  return first == threads_.end() ? 0 : (first->second.*sum).seconds();
}

double ProgramSchedule::first_share() const {
  double all_s = 0;
  for (const auto& [thread, times] : threads_) all_s += times.ran.seconds();
  return all_s > 0 ? of_first(&Times::ran) / all_s : 1;
}

double ProgramSchedule::first_waited_s() const {
  return of_first(&Times::waited);
}

double ProgramSchedule::others_waited_s() const {
  double sum_s = 0;
  for (const auto& [thread, times] : threads_)
    if (thread != process_) sum_s += times.waited.seconds();
  return sum_s;
}

}  // namespace shadowprof::sample
