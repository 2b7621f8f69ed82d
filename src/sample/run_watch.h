// SPDX-License-Identifier: MIT
//
// What the event loops have in common of the modes in which the program runs natively most of the
// time: the clock, waiting for reports and signals at once, and what the user is to be told.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "shadow/program.h"

namespace shadowprof::sample {

class RunWatch {
 public:
  // Seconds since sampling began.
  double elapsed() const;

  // Until then, or a report, or a signal to us. What is meant for `program` is passed on, if we
  // have started it; anything else interrupts the run.
  void wait_until(double moment, const shadow::Program& program);
  bool interrupted() const { return interrupted_; }
  // Untraced, a program that we launched is still our child.
  void wait_for_end(shadow::Program& program);

  void warn_once(const std::string& sentence);
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool interrupted_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace shadowprof::sample
