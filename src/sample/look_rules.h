// SPDX-License-Identifier: MIT
//
// Processor time by looks at threads: when they are taken, and what they stand for. Nothing here
// knows a process or a clock.
//
// Moments are drawn at random and do not depend on what the program does. A thread that has a
// processor at such a moment has spent the time since the moment before where it is; one that has
// none, because it sleeps or waits for its turn, has spent none. So the time of a place is the sum
// of the intervals before the looks that found a thread there. Its expectation is the processor
// time that was spent there, also of a program that sleeps and runs by turns: a moment hits code as
// often as that has a processor. (Were each look to stand for the processor time since the thread
// was last seen, code that runs right after a sleep would get less than its due, and code before a
// sleep more: two looks are hardly ever within one turn.) Of n looks that found a thread, a
// share's standard error is sqrt(share * (1 - share) / n) at most; less where the program does one
// thing for longer than an interval. The sums of a thread and of its process are then made those of
// the kernel's account, which are exact.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <span>

#include "kernel/proc.h"
#include "machine/registers.h"

namespace shadowprof::sample {

// Looks are as frequent as their part of the budget pays for.
class LookMoments {
 public:
  // `budget_share`: of the programs' time, that looks may take.
  LookMoments(double budget_share, uint64_t seed);

  void set_budget(double share) { budget_share_ = share; }
  void begin(double now);
  double next() const { return next_s_; }
  // One is taken, at next() or later. How many seconds it stands for.
  double take(double now);
  // What that look has taken of a thread that ran, and of our time. No thread: nothing. Looks that
  // find nobody are free, so there are more of them.
  void paid(double stopped_s, double ours_s, double now);
  void end() { next_s_ = std::numeric_limits<double>::infinity(); }

  double period_s() const;

 private:
  double budget_share_;
  std::mt19937_64 random_;
  double price_s_;
  double ours_s_ = 0;
  double last_s_ = 0;
  double next_s_ = std::numeric_limits<double>::infinity();
};

// What became of a thread between a look, when it ran or waited for a processor, and its stop.
struct Asked {
  kernel::ScheduleTimes before;
  kernel::ScheduleTimes at_stop;
  double since_moment_s = 0;  // for which the look was planned, until the stop was seen
  bool was_asleep = false;    // its stop has cut a sleep short
  bool may_lose_it = false;  // to the look, which had to take its processor
};

// Did it have a processor at the moment of the look? One that was given none in between had one all
// the time. Else it must not have waited for longer than since that moment: it has gone to sleep
// since the look, or has lost its processor to it. The last is doubtful: some kernels take it away
// when a thread leaves a system call, so it would be seen there too often.
bool had_processor(const Asked& asked);

// Bytes of code around a program counter: what ends there, and what begins there.
struct CodeAround {
  std::span<const uint8_t> before;
  std::span<const uint8_t> after;
};

// Was the kernel at work for a thread that stops with these registers? It stops on its way to user
// mode only: behind a system call, at an instruction that faulted, or where an interrupt hit user
// code. Faults set the resume flag, which the instruction clears when it is executed (Intel SDM
// 3A, 17.3.1.1). A repeated string instruction that an interrupt hit has it, too; one that has
// faulted is where a page begins, mostly.
bool kernel_worked(const machine::Registers& registers, const CodeAround& code);

}  // namespace shadowprof::sample
