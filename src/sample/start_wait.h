// SPDX-License-Identifier: MIT
//
// Sampling is to begin when the program reaches a function (--start-at). Until then it runs
// natively, and there is no sample, no clock and no replica: the run that samples is made when this
// is over, as if it had attached to the program in that moment.
//
//   launched, or attached to ─▶ it runs ─▶ look where its threads are ─ elsewhere ─▶ the next look,
//                                             │                       when the budget has paid
//                                             └ there ─▶ ShadowRun or BurstRun begins
//
// Looks, and no breakpoint of the processor's debug registers: a breakpoint outlives its tracer.
// If we were killed, a thread that reaches it would die of the SIGTRAP that nobody takes. So what
// is sure is that nothing was sampled before the function; how soon after it was first entered the
// program is seen there, a function that is over between two looks leaves to chance.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sample/control_socket.h"
#include "sample/run_watch.h"
#include "sample/wanted_part.h"
#include "shadow/program.h"

namespace shadowprof::sample {

class StartWait {
 public:
  // `function`: as WantedPart has it. `share`: of the program's time, that looks may take.
  StartWait(std::string function, double share, bool follow_exec, uint64_t seed);

  // For a program that was just launched, which runs from here on, or was attached to. Whether it
  // was seen there; else it has ended, or the user has ended the wait, or it is not followed any
  // more. `control` may be null; `file` is where the profile will be, as status says it.
  bool wait(shadow::Program& program, bool is_new, ControlSocket* control, std::string file);

  // What there is to tell of the run up to here.
  void fill(profile::Profile& profile) const;
  const std::vector<std::string>& warnings() const { return watch_.warnings(); }
  // What looks may take now; the user may have said so meanwhile.
  double share() const { return share_; }

 private:
  bool look(shadow::Program& program);
  void handle_reports(shadow::Program& program);
  void handle(shadow::Program& program, const ptrace::WaitOutcome& outcome);
  void note_executed(const shadow::Program& program);
  ControlledRun controlled(const shadow::Program& program);
  double now() const { return watch_.elapsed(); }

  const std::string function_;
  std::string file_;
  double share_;
  const bool follow_exec_;
  WantedPart part_;
  RunWatch watch_;
  unsigned generation_ = 0;
  uint64_t looks_ = 0;
  double spent_s_ = 0;
  double next_look_s_ = 0;
  std::mt19937_64 random_;
  bool is_lost_ = false;
  bool was_stopped_ = false;
  std::optional<double> seen_at_s_;
};

}  // namespace shadowprof::sample
