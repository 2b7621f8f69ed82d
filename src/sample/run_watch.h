// SPDX-License-Identifier: MIT
//
// What the event loops have in common of the modes in which the program runs natively most of the
// time: the clock, waiting for reports and signals at once, what became of the program, and what
// the user is to be told.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/short_memory.h"
#include "profile/profile.h"
#include "shadow/program.h"

namespace shadowprof::sample {

class RunWatch {
 public:
  // Seconds since sampling began.
  double elapsed() const;

  // Until then, or a report, or a signal to us. What is meant for `program` is passed on, if we
  // have started it; anything else interrupts the run.
  void wait_until(double moment, const shadow::Program& program);
  // The same at once: for loops that may long have no time to wait.
  void look(const shadow::Program& program) { wait_until(0, program); }
  bool interrupted() const { return interrupted_; }
  // Sampling is over: somebody said so, or our processor time or memory is used up.
  bool must_stop() const { return stopped_ || interrupted_ || out_of_time_ || memory_is_short(); }
  // It is to be over, and that is no interruption.
  void stop() { stopped_ = true; }
  // Somebody has asked for the profile so far, since the last call.
  bool take_dump_wish() { return std::exchange(wants_dump_, false); }
  // Untraced, a program that we launched is still our child.
  void wait_for_end(shadow::Program& program);

  // The program that was launched, or the first one, has executed another.
  void note_exec(const shadow::Program& program);
  // A program has executed another, and will go on without us (--no-exec).
  void note_left(const shadow::Program& program);
  // All do, if that is over.
  void note_end(const shadow::Program& program);
  // The user has set something; the value is as it holds now.
  void note_setting(std::string name, std::string value);
  // All of them, for the profile, behind what it has.
  void fill(profile::Profile& profile) const;

  void warn_once(const std::string& sentence);
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool interrupted_ = false;
  bool stopped_ = false;
  bool out_of_time_ = false;
  bool wants_dump_ = false;
  std::vector<profile::Image> executed_;
  std::vector<profile::EndedEarly> left_;
  std::vector<profile::SettingChange> changes_;
  std::vector<std::string> warnings_;
};

}  // namespace shadowprof::sample
