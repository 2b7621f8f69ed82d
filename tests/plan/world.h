// SPDX-License-Identifier: MIT
//
// A simulated run: a program that is a row, on a host that is a row, sampled by a Policy. No clock
// and no process: 10,000 seconds of a program take less than one.
//
// What is simulated, and how:
//
//   the program   runs, or sleeps and wakes periodically; has pages, and writes to some of them
//   again
//                 and again, so that the number of pages copied for a replica comes close to a
//                 bound
//   its phases    one after another, over and over: each is other code, recorded at another speed
//   a fork        stops the program for the host's pause and for its page tables
//   a replica     records slower than the program executes, is as fast natively
//   a busy core   takes a share of the program's speed while a replica is at work, and so does the
//                 replica's use of the caches, as much as is assumed
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy.h"

namespace shadowprof::plan {

struct Phase {
  double lasts_s = 1;        // of the program's time
  int code = 0;              // equal numbers: equal code
  double recording = 8;      // seconds of a replica's to record a second of the program
  double writing_share = 1;  // of the program's usual rate of writing
};

struct ProgramRow {
  std::string name;
  double pages = 1000;
  double grows_pages_per_s = 0;
  double most_pages = 4e6;
  double writes_pages = 200;  // to so many, again and again
  double writes_share = 0;    // and to this share of the others
  double writes_within_s = 0.05;
  std::vector<Phase> phases{{}};
  unsigned threads = 1;
  // Runs for so long, then sleeps for so long; 0: it never sleeps.
  double runs_s = 1;
  double sleeps_s = 0;
};

struct HostRow {
  std::string name = "quiet";
  double page_copied_s = 2e-6;
  double page_kept_s = 0.8e-6;
  double pause_s = 0.3e-3;
  double burst_s = 1e-3;
  double busy_core_share = 0;
  // From then on prices are so many times what they were.
  double dearer_from_s = 1e18;
  double dearer_times = 1;
};

// One sample: where in the program's time, of which code, and in which kind.
struct Moment {
  double used_s = 0;
  double now_s = 0;
  int code = 0;
  bool is_burst = false;
  double length_s = 0;  // of the program's time
};

struct Figures {
  double seconds = 0;
  double used_s = 0;
  double true_share = 0;       // what the program lost
  double estimated_share = 0;  // what the policy takes that for
  // The most that the cost has been above the budget's part of the time, up to any moment.
  double most_debt_s = 0;
  double dearest_step_s = 0;
  double cost_late_s = 0;  // in the second half
  uint64_t forks = 0;
  uint64_t later_samples = 0;
  uint64_t bursts = 0;
  uint64_t peeks = 0;
  double recorded_share = 0;  // of the program's time
  double longest_gap_s = 0;   // of the program's time without a sample; from the first one on
  // How many of fifty equal parts of the program's time have a sample; each tenth of a second with
  // one is an observation.
  double parts_seen_share = 0;
  uint64_t observations = 0;
  // 1 less half the sum of differences of codes' shares: observations, each for the time that it
  // stands for, and the program.
  double accuracy_share = 0;
  std::vector<Moment> moments;
};

Figures simulate(const ProgramRow& program, const HostRow& host, const Wishes& wishes,
                 Policy& policy, double seconds);

}  // namespace shadowprof::plan
