// SPDX-License-Identifier: MIT
//
// When the next sample is taken. A closed loop: what samples have cost the program up to now, and
// the next one is expected to cost, must fit into the budget's share of the time that has passed.
//
//   cost of a sample = how long the program was stopped
//                    + page faults that it took because pages were shared with the replica,
//                      times what such a fault costs on this host (calibrated at start)
//                    + how long it stood still for its input log (shadow/input_log.h)
//                    + processor time that the program might have had, where no core is idle; else
//                      what a busy neighbour costs it (neighbour.h)
//
// How long a sample is (next_length()), in seconds that its replica executes the program: what it
// costs is partly the same however long it is (the pause, and a fault for each page that the
// program will write to) and partly grows with it (the part of these faults that come meanwhile,
// which are dearer, and the neighbour). Few long samples see more of what the program does; many
// short ones see more of the program's phases. A typical sample is so long that the second part is
// a quarter of the first, and not so long that the load leaves room for fewer samples than the budget.
//
// A sample is the longer the more time it stands for: what has passed since the one before it. In that
// time it executes the more instructions the faster the program is just then
// (shadow/engine_clock.h). Else the parts of a program in which samples are dear, and therefore
// rare, would be less known than others. What is uneven nevertheless, collect/sample_weights.h evens out.
//
// Where forks are dear they are far apart. The gaps are filled with brief samples that take no fork
// (burst_emulator.h), for half of the budget: what a program does can be known only from when it was
// looked at, and few instructions of many moments may say more than many of few. Which of both says
// more for what it costs is known when some of each were taken (know_samples()).
//
// A second bound is the load: the share of time in which replicas run. Moments are randomised, so
// that nothing periodic in the program is seen always or never.
//
// Times are seconds since sampling began. Nothing here looks at a clock or a process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "shadow/engine_clock.h"

namespace shadowprof::sample {

struct GovernorOptions {
  double max_overhead = 0.01;  // share of the program's time
  double load = 1;             // average number of active shadows
  double frequency = 0;        // samples a second; 0: what the budget allows
  double delay = 0;            // before the first one
  uint64_t seed = 0;
};

// What a sample cost the program. Faults that it would have had anyway are not in it.
struct SampleCost {
  double pause = 0;
  double lifetime = 0;
  double faults_while_alive = 0;
  double contention = 0;  // seconds
  double log = 0;         // seconds that the program stood still so that its input could be kept
  double guest_s = 0;  // that the replica executed the program; 0: says nothing about the next ones
};

class Governor {
 public:
  Governor(const GovernorOptions& options, const shadow::FaultPrice& price);

  // It was measured anew. What was paid up to now stays as it is.
  void set_price(const shadow::FaultPrice& price) { price_ = price; }

  // The earliest moment for the next sample, as things are.
  double next_sample() const { return next_; }
  // A sample has begun; others may, before it ends.
  void began(double now);
  void sampled(double now, const SampleCost& cost);
  // The program took so many page faults more for samples that had ended.
  void faulted(double count);
  // It was not forked, but stood still for a sample. What is not spent so is saved up for a fork.
  void interpreted(double now, const SampleCost& cost);
  // The earliest moment for such a sample between two that it is forked for.
  double next_filler() const { return next_filler_; }
  // It was taken; or not, if it cost nothing.
  void filled(double now, const SampleCost& cost);
  // How far the code of one forked sample is from that of the others, and of one filler; squared.
  void know_samples(double variance_of_forked, double variance_of_filler);
  // Until the budget bears a sample that may cost so much; 0: it does. Some seconds' is lent to one
  // that costs no more than that.
  double seconds_until_affordable(double cost, double now) const;
  // What the budget has given up to now and nothing has cost.
  double unspent(double now) const {
    return std::max(0.0, options_.max_overhead * (now - options_.delay) - cost());
  }
  void wait(double until) { next_ = std::max(next_, until); }
  // The sample that has ended makes room for another one, which the budget bears now.
  void replace(double now);
  // Samples are needed so many times less often than the budget allows (convergence.h); at least 1.
  void set_patience(double factor) { patience_ = factor; }
  // Of a sample that begins now, in seconds.
  double next_length(double now);
  // It was stopped outside samples.
  void paused(double seconds) { pause_ += seconds; }
  // Work of ours took so much of its processors.
  void disturbed(double seconds) { contention_ += seconds; }
  // All that was so costs only this share of what it was taken for.
  void revise_disturbance(double factor) { contention_ *= factor; }
  // Nothing could be sampled: the program slept, or could not be forked. Tries again after growing
  // times up to `longest`.
  static constexpr double kLongestRetry = 0.5;
  void missed(double now, double longest = kLongestRetry);

  uint64_t samples() const { return samples_; }
  double pause_total() const { return pause_; }
  // Cost to the program as a share of the time that has passed.
  double estimated_share(double now) const { return now > 0 ? cost() / now : 0; }

 private:
  double cost() const { return pause_ + fault_cost_ + contention_ + log_; }
  void choose_next(double now);
  void choose_next_filler(double now);
  double mean_fork() const;
  double mean_filler() const;
  double pay(const SampleCost& unforked);
  void choose_length(const SampleCost& sample);

  GovernorOptions options_;
  shadow::FaultPrice price_;
  std::mt19937_64 random_;
  uint64_t samples_ = 0;
  uint64_t pending_ = 0;  // that have begun and not ended
  double patience_ = 1;
  unsigned missed_in_a_row_ = 0;
  double pause_ = 0;
  double fault_cost_ = 0;
  double contention_ = 0;
  double log_ = 0;
  double last_cost_ = 0;
  double active_ = 0;
  double next_ = 0;
  double next_filler_ = 0;
  double fillers_share_;  // of the budget
  double fillers_cost_ = 0;
  uint64_t fillers_ = 0;
  double stands_from_ = 0;  // the next sample for the time since then
  double length_;           // of a typical one
  uint64_t lengths_seen_ = 0;
  // Sums over samples, in which those before the last change of length count half, and so on: their
  // number, and seconds.
  double recent_ = 0;
  double fixed_ = 0;
  double growing_ = 0;
  double guest_ = 0;
  double lived_ = 0;
};

}  // namespace shadowprof::sample
