// SPDX-License-Identifier: MIT
//
// What costs the program time: one row for each thing, in seconds. Each row is measured, when
// profiling begins or as steps are taken; the default stands until then. The last five rows are
// assumed: what they stand for cannot be told from what the program loses anyway. Those of caches
// follow what programs lose beside copies of themselves (bench/beside.py), and of many pages what
// loops do on this host (probe/cache_neighbour.h), where that is known.
#pragma once

#include <algorithm>

namespace shadowprof::plan {

struct Prices {
  double page_copied_s = 2e-6;  // written to while a replica has it, too
  double page_kept_s = 0.8e-6;  // written to when the replica is dead
  // One entry of the page tables that a fork copies: bench/resident.c.
  double page_table_entry_s = 0.09e-6;
  double pause_s = 0.3e-3;  // a fork, but for its page tables: the program stands still
  double burst_s = 1e-3;
  // What the first replica takes of a core: its code is translated, and collectors read its sample.
  double first_replica_s = 0.04;
  // The program loses this share of its speed beside a core that is busy.
  double busy_core_share = 0;
  // A thread stands still for so long when it is sent a signal, until its tracer has let it go on.
  // Each of 1600 a second took a loop 60 to 125 us, where it is dear to wake an idle core.
  double signal_s = 60e-6;
  // While a replica works, the program loses this share because both use its caches; and more while
  // the replica executes as fast as the program, as of pages that one of them has written to a
  // cache holds two. A program whose forks are dear has more memory than caches hold, misses them
  // anyway, and loses this share of what the replica executes.
  double cache_share = 0.015;
  double most_cache_share = 0.08;  // of so many pages or more, and in proportion of fewer
  double most_cache_pages = 1800;
  double beyond_cache_share = 0.01;

  // A loop over as many pages loses this beside another one; a program that waits for memory up to
  // twice as much: 15 % on a host whose loops lose 4 to 11, 4 % where they lose 2 to 4. Programs of
  // few pages lose 2 to 3 % there and 1 % here (bench/shadow_mode.md).
  void take_cache_neighbour(double loss) {
    cache_share = std::clamp(0.005 + loss / 4, 0.01, 0.02);
    most_cache_share = std::clamp(2 * loss, 0.02, kMostCacheShare);
  }
  // A replica is so many times as fast once its caches are warm: who is slow with cold caches loses
  // the more. One with 1.8 loses 3.9 % where others lose 1.1.
  void take_warm_gain(double ratio) {
    const double more = std::clamp(ratio * ratio, 1.0, 4.0);
    cache_share *= more;
    most_cache_share = std::min(more * most_cache_share, kMostCacheShare);
  }
  static constexpr double kMostCacheShare = 0.15;
};

}  // namespace shadowprof::plan
