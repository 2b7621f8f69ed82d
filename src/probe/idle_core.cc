// SPDX-License-Identifier: MIT
#include "probe/idle_core.h"

#include <unistd.h>

#include <algorithm>

#include "kernel/proc.h"
#include "probe/own_cores.h"

namespace shadowprof::probe {
namespace {

// A look at each takes time.
constexpr size_t kMostLookedAt = 64;

size_t running_threads(Tid program) {
  const auto threads = kernel::list_threads(program);
  if (!threads) return 0;
  const auto looked_at = std::span(*threads).first(std::min(threads->size(), kMostLookedAt));
  return static_cast<size_t>(std::ranges::count_if(looked_at, [&](Tid thread) {
    const auto stat = kernel::read_thread_stat(program, thread);
    return stat && stat->state == 'R';
  }));
}

}  // namespace

bool may_have_idle_core(Tid program) {
  const auto online = static_cast<size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const size_t allowed = OwnCores().all().size();
  // Who else is on some of the cores the number of all threads does not say.
  if (allowed != 0 && allowed < online) return running_threads(program) < allowed;
  const auto threads = kernel::read_machine_threads();
  return !threads || threads->running <= online;
}

}  // namespace shadowprof::probe
