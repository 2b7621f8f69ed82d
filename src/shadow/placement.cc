// SPDX-License-Identifier: MIT
#include "shadow/placement.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "kernel/proc.h"

namespace shadowprof::shadow {
namespace {

// Seconds. The kernel counts a running thread's time at clock ticks, of which a hundred a second
// may be all that there are.
constexpr double kInterval_s = 0.01;
constexpr double kLeastShare = 0.1;
constexpr int kNone = -1;

// Where we might run before we kept away from anything; empty: that cannot be known.
const cpu_set_t& all_cores() {
  static const cpu_set_t all = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    (void)::sched_getaffinity(0, sizeof allowed, &allowed);
    return allowed;
  }();
  return all;
}

// Those that keep our threads from a core, the last that said so behind the others.
std::vector<const Placement*>& keeping() {
  static std::vector<const Placement*> all;
  return all;
}

// One that ends meanwhile does not matter.
void put_own_threads(const cpu_set_t& cores) {
  const auto threads = kernel::list_threads(Tid(::getpid()));
  if (!threads) return;
  for (const Tid thread : *threads) (void)::sched_setaffinity(thread.value, sizeof cores, &cores);
}

// Not if nothing was left.
void leave_out(cpu_set_t& cores, int core) {
  if (core < 0 || core >= CPU_SETSIZE || CPU_COUNT(&cores) < 2) return;
  CPU_CLR(static_cast<size_t>(core), &cores);
}

}  // namespace

Placement::~Placement() {
  rest();
}

void Placement::rest() {
  if (avoided_ != kNone) keep_own_threads_from(kNone);
}

void Placement::keep_own_threads_from(int core) {
  avoided_ = core;
  std::erase(keeping(), this);
  if (core != kNone) keeping().push_back(this);
  cpu_set_t cores = all_cores();
  if (!keeping().empty()) leave_out(cores, keeping().back()->avoided_);
  put_own_threads(cores);
}

void Placement::start(Tid replica, Tid beside) {
  replica_ = replica;
  beside_ = beside;
  if (CPU_COUNT(&all_cores()) < 2) return;
  if (const auto stat = kernel::read_thread_stat(beside, beside)) avoid(stat->processor, kNone);
  used_before_ = replica_seconds(replica_);
  next_.start(kInterval_s);
}

// How long it has waited is counted when it runs, and therefore of no use here.
void Placement::look() {
  if (!next_.is_due()) return;
  next_.start(kInterval_s);
  const double used = replica_seconds(replica_);
  const bool has_run = used - std::exchange(used_before_, used) > kLeastShare * kInterval_s;
  int stuck = kNone;
  if (!has_run) {
    const auto stat = kernel::read_thread_stat(replica_, replica_);
    if (stat && stat->state == 'R') stuck = stat->processor;
  }
  const auto program = kernel::read_thread_stat(beside_, beside_);
  const int core = program ? program->processor : avoided_;
  if (core != avoided_ || stuck != kNone) avoid(core, stuck);
}

void Placement::avoid(int core, int another) {
  keep_own_threads_from(core);
  cpu_set_t others = all_cores();
  leave_out(others, core);
  leave_out(others, another);
  (void)::sched_setaffinity(replica_.value, sizeof others, &others);
}

}  // namespace shadowprof::shadow
