// SPDX-License-Identifier: MIT
#include "sample/program_schedule.h"

#include <algorithm>

#include "kernel/proc.h"

namespace shadowprof::sample {

void ProgramSchedule::begin(Tid process) {
  process_ = process;
  threads_.clear();
  look();
  for (auto& [thread, waits] : threads_) waits.at_begin_ns = waits.last_ns;
}

void ProgramSchedule::look() {
  const auto threads = kernel::list_threads(process_);
  if (!threads) return;  // it has ended
  for (const Tid thread : *threads)
    if (const auto times = kernel::read_schedstat(thread)) {
      Waits& waits = threads_[thread];
      waits.last_ns = std::max(waits.last_ns, times->waited);
    }
}

double ProgramSchedule::first_waited_s() const {
  const auto first = threads_.find(process_);
  return first == threads_.end() ? 0 : first->second.seconds();
}

double ProgramSchedule::others_waited_s() const {
  double sum_s = 0;
  for (const auto& [thread, waits] : threads_)
    if (thread != process_) sum_s += waits.seconds();
  return sum_s;
}

}  // namespace shadowprof::sample
