// SPDX-License-Identifier: MIT
#include "shadow/low_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <thread>

#include "base/start_thread.h"

namespace shadowprof::shadow {
namespace {

// A tenth as much as others have, where all want a processor (kernel/sched/core.c).
constexpr int kNice = 10;

bool set_policy(Tid tid, int policy) {
  const sched_param none{};
  return ::sched_setscheduler(tid.value, policy, &none) == 0;
}

}  // namespace

bool may_leave_idle_priority() {
  static const bool kMay = [] {
    bool may = false;
    const Tid own;
    std::thread trial;
    const auto try_it = [&] { may = set_policy(own, SCHED_IDLE) && set_policy(own, SCHED_OTHER); };
    if (!start_thread(trial, try_it)) return false;
    trial.join();
    return may;
  }();
  return kMay;
}

void lower_priority(Tid tid) {
  if (may_leave_idle_priority()) {
    (void)set_policy(tid, SCHED_IDLE);
    return;
  }
  const auto id = static_cast<id_t>(tid.value);
  errno = 0;
  const int now = ::getpriority(PRIO_PROCESS, id);
  if (errno == 0 && now < kNice) (void)::setpriority(PRIO_PROCESS, id, kNice);
}

void raise_priority(Tid tid) {
  if (may_leave_idle_priority()) (void)set_policy(tid, SCHED_OTHER);
}

}  // namespace shadowprof::shadow
