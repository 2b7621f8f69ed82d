// SPDX-License-Identifier: MIT
//
// What is known of the program and of its replica when the next step is chosen. Whoever fills this
// looks at clocks and processes; who reads it does not. Times are seconds since profiling began.
#pragma once

#include <cstddef>
#include <optional>

namespace shadowprof::plan {

// A replica that waits to be told what to do.
struct IdleReplica {
  double age_s = 0;
  double pause_s = 0;       // the program stood still for its fork
  double recorded_s = 0;    // its samples took, by the clock
  double executed_s = 0;    // of its program
  double used_s = 0;        // the program's processor time since the fork
  double cost_s = 0;        // to the program, its pause excepted
  double copied_pages = 0;  // as one of both has written to them
  // Its program, or where it runs, is not what it was: it has to end.
  bool is_obsolete = false;
  double behind_s() const { return used_s > executed_s ? used_s - executed_s : 0; }
};

struct Situation {
  double now_s = 0;
  double used_s = 0;  // the program's processor time since profiling began

  // The program's memory: what a fork copies entries for, and the pages that the program will write
  // to because of it, as far as earlier forks tell.
  double resident_pages = 0;
  double written_pages = 0;
  // The last fork was of about as much memory.
  bool resembles_last_fork = true;
  // Bursts have seen the program write to the same few pages only.
  bool writes_same_pages = false;

  size_t replicas = 0;       // that live
  size_t most_replicas = 1;  // that may
  // At this moment, or replicas do not wait for one. A fork waits for a few looks, not for long.
  bool core_is_idle = true;
  bool may_fork = true;
  bool may_burst = true;
  bool may_peek = true;
  // A replica can follow all that the program does: one thread of one process.
  bool can_be_followed = true;
  bool may_give_later_samples = true;  // replicas that have given one
  // The share of its speed that the program loses because the replica runs on its core.
  double shared_core_share = 0;
  // What a busy core costs its neighbours is measured again then.
  double measures_contention_at_s = 0;

  std::optional<IdleReplica> idle;  // one of the replicas

  // How far one sample is from the others of its kind, squared; nothing: not known yet.
  std::optional<double> fork_variance;
  std::optional<double> burst_variance;
};

}  // namespace shadowprof::plan
