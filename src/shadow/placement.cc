// SPDX-License-Identifier: MIT
#include "shadow/placement.h"

#include <utility>

#include "kernel/proc.h"

namespace shadowprof::shadow {
namespace {

// Seconds. The kernel counts a running thread's time at clock ticks, of which a hundred a second may be
// all that there are.
constexpr double kInterval = 0.01;
constexpr double kLeastShare = 0.1;

}  // namespace

void Placement::start(Tid replica, Tid beside) {
  replica_ = replica;
  if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0 || CPU_COUNT(&allowed_) < 2) return;
  if (const auto stat = kernel::read_thread_stat(beside, beside)) avoid(stat->processor);
  used_before_ = processor_time_of(replica_).used;
  next_.start(kInterval);
}

// How long it has waited is counted when it runs, and therefore of no use here.
void Placement::look() {
  if (!next_.is_due()) return;
  next_.start(kInterval);
  const double used = processor_time_of(replica_).used;
  const bool has_run = used - std::exchange(used_before_, used) > kLeastShare * kInterval;
  if (has_run) return;
  const auto stat = kernel::read_thread_stat(replica_, replica_);
  if (stat && stat->state == 'R') avoid(stat->processor);
}

void Placement::avoid(int core) const {
  cpu_set_t others = allowed_;
  if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(static_cast<size_t>(core), &others);
  (void)::sched_setaffinity(replica_.value, sizeof others, &others);
}

}  // namespace shadowprof::shadow
