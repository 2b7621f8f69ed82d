// SPDX-License-Identifier: MIT
#include "sample/engine_stops.h"

namespace shadowprof::sample {

std::map<std::string, uint64_t> stops_by_kind(const inject::EngineCounts& counts) {
  return {{"miss", counts.misses},
          {"indirect_miss", counts.indirect_misses},
          {"pair_log", counts.pair_logs},
          {"drain", counts.drains},
          {"syscall", counts.tracer_syscalls},
          {"signal", counts.signals},
          {"native_step", counts.native_steps},
          {"context_step", counts.context_steps},
          {"signal_hold", counts.holds},
          {"stale", counts.stale},
          {"flush", counts.flushes},
          {"process", counts.processes},
          {"thread", counts.threads}};
}

}  // namespace shadowprof::sample
