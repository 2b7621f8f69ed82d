// SPDX-License-Identifier: MIT
//
// Processor time of the programs while they are sampled: by the kernel's clock, or by looks at
// their threads where that was asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <limits>
#include <string>

#include "clock/time_account.h"
#include "sample/time_looks.h"
#include "sample/time_source.h"

namespace shadowprof::sample {

enum class TimeFrom : uint8_t { clock, looks, nowhere };

class TimeWatch {
 public:
  // `access`: to the programs, for looks.
  TimeWatch(TimeFrom from, double max_overhead, uint64_t seed, ProgramAccess access);

  // A program that is sampled from now on.
  void begin(Tid process, double now);
  // It has ended.
  void forget(Tid process) {
    if (source_) source_->forget(process);
  }
  // When look() is to be called again.
  double next() const { return source_ ? source_->next() : kNever_s; }
  // Takes what has happened. The program may be stopped for it, and reports of it be served.
  void look(double now);
  // They are no longer sampled.
  void end(double now);
  // Seconds that the programs are thought to have lost since the last call.
  double take_cost() { return source_ ? source_->take_cost() : 0; }
  void set_max_overhead(double share);
  // The times of the profile. `duration_s`: how long the programs were sampled. `watched_cpu_s`:
  // theirs alone, by which that of the kernel is known where ticks do not tell.
  void finish(double duration_s, double watched_cpu_s, profile::Profile& profile);
  // The same up to now, in a copy of this process: the clocks go on for the original.
  void finish_copy(double duration_s, double watched_cpu_s, profile::Profile& profile);

  // As far as is known.
  const clock::TimeAccount& account() const { return account_; }
  const std::string& why_not() const { return why_not_; }

 private:
  void fill(double duration_s, double watched_cpu_s, uint64_t cycles_at_end,
            profile::Profile& profile);

  static constexpr double kNever_s = std::numeric_limits<double>::infinity();

  clock::TimeAccount account_;
  std::unique_ptr<TimeSource> source_;  // null: there is none
  std::string why_not_;
  Tid first_;  // the program that was given first
  uint64_t cycles_at_begin_ = 0;
  uint64_t cycles_at_end_ = 0;  // of sampling, after which the program may go on; 0: not yet
};

}  // namespace shadowprof::sample
