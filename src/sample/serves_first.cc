// SPDX-License-Identifier: MIT
#include "sample/serves_first.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace shadowprof::sample {
namespace {

constexpr int32_t kNice = -10;
constexpr uint64_t kTurn_ns = 100'000;  // the kernel has no shorter ones

}  // namespace

bool ServesFirst::set(const Attributes& attributes) {
  return ::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

ServesFirst::ServesFirst() {
  static_assert(sizeof(Attributes) == 56);
  const bool known = ::syscall(SYS_sched_getattr, 0, &before_, sizeof before_, 0) == 0;
  if (!known || before_.policy != SCHED_OTHER) return;
  Attributes first = before_;
  first.turn_ns = kTurn_ns;
  first.nice = std::min(kNice, before_.nice);
  is_first_ = set(first);
  if (is_first_) return;
  first.nice = before_.nice;
  is_first_ = set(first);
}

ServesFirst::~ServesFirst() {
  if (is_first_) (void)set(before_);
}

ServesNow::ServesNow() {
  cpu_set_t ours;
  const bool has_others = ::sched_getaffinity(0, sizeof ours, &ours) == 0 && CPU_COUNT(&ours) > 1;
  const sched_param lowest{.sched_priority = 1};
  is_real_time_ = has_others && ::sched_getscheduler(0) == SCHED_OTHER &&
                  ::sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
}

// Nice value and turns are what they were.
ServesNow::~ServesNow() {
  const sched_param none{};
  if (is_real_time_) (void)::sched_setscheduler(0, SCHED_OTHER, &none);
}

}  // namespace shadowprof::sample
