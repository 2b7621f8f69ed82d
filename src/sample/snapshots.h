// SPDX-License-Identifier: MIT
//
// Profiles of a run that goes on, for whoever looks on (shadowprof top):
//
//   sampling process ── fork at a quiet moment ──▶ copy: collectors finish, names, file ──▶ reader
//          │
//          └─ goes on sampling; the copy's memory is shared until one of them writes to it
//
// The collectors can finish once only, so what finishes is a copy of the process, which writes the
// file under another name, renames it, and ends. What it costs: the fork takes as long as copying
// our own page tables twice (about 0.1 us for each page of ours, a few milliseconds), in which no
// sample is served; the program is not stopped for it. Finishing and naming take processor time
// that is ours and not the program's, at the lowest priority, on another core where one is free.
// There is one copy at a time: where one takes longer than the interval, the next one waits.
#pragma once

#include <functional>
#include <string>

#include "base/unique_fd.h"
#include "collect/pipeline.h"

namespace shadowprof::sample {

class Snapshots {
 public:
  // All runs of this process make them from now on.
  static void ask_for(std::string file, double interval_s);
  static const std::string& file();

  // `now`: seconds since sampling began. Never, where nobody has asked.
  bool is_due(double now);
  // `write` is called in a copy of this process, which ends with it.
  void take(double now, collect::Pipeline& pipeline, const std::function<void()>& write);

 private:
  double next_s_ = 0;
  UniqueFd working_;  // closed at its other end when the last copy has ended
};

}  // namespace shadowprof::sample
