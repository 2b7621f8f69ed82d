// SPDX-License-Identifier: MIT
#include "sample/run_watch.h"

#include <algorithm>
#include <csignal>
#include <ctime>

#include "base/elapsed.h"
#include "kernel/proc.h"
#include "ptrace/wait.h"
#include "sample/host.h"

namespace shadowprof::sample {
namespace {

constexpr double kLongestWait_s = 1.0;

}  // namespace

double RunWatch::elapsed() const {
  return seconds_since(start_);
}

// Signals are blocked in all our threads, so none is lost between a look and the wait.
void RunWatch::wait_until(double moment, const shadow::Program& program) {
  const double left = std::max(0.0, moment - elapsed());
  timespec time{};
  time.tv_sec = static_cast<time_t>(left);
  time.tv_nsec = static_cast<long>(1e9 * (left - static_cast<double>(time.tv_sec)));
  const sigset_t awaited = awaited_signals();
  siginfo_t info{};
  const int signal = ::sigtimedwait(&awaited, &info, &time);
  if (signal <= 0 || signal == SIGCHLD || signal == kControlWanted) return;
  // To its process group: it has it itself.
  if (program.is_ours() && sender_of(info) == program.pid()) return;
  const bool is_by_us = info.si_pid == ::getpid();
  if (signal == kFrontDied && !front_is_gone() && !is_by_us) return;
  if (signal == SIGXCPU || signal == kDumpWanted) {
    (signal == SIGXCPU ? out_of_time_ : wants_dump_) = true;
    return;
  }
  // Children may go on where the program that was started has ended: there is nobody to tell.
  if (signal == kFrontDied || !program.is_ours() || !program.alive()) {
    interrupted_ = true;
  } else if (signal != SIGINT && signal != SIGQUIT) {
    ::kill(program.pid().value, signal);
  }
}

void RunWatch::wait_for_end(shadow::Program& program) {
  while (program.alive() && !interrupted_) {
    if (program.is_traced()) program.detach();
    // A thread that could not be let go yet still stops, at its signals for one.
    const ptrace::WaitOutcome outcome = ptrace::wait_any(ptrace::WaitMode::poll);
    if (outcome.has_status()) {
      program.on_stop(outcome.tid, outcome.status);
    } else {
      wait_until(elapsed() + kLongestWait_s, program);
    }
  }
}

void RunWatch::note_exec(const shadow::Program& program) {
  std::vector<std::string> command = kernel::read_command(program.pid());
  if (!command.empty() && executed_.size() < profile::kMostImages)
    executed_.push_back({std::move(command), elapsed()});
}

void RunWatch::note_left(const shadow::Program& program) {
  if (left_.size() == profile::kMostEndedEarly) return;
  left_.push_back({elapsed(), {}, fmt::format("process {} executed another program, which ran "
                                              "unprofiled {}", program.pid().value,
                                              profile::kByNoExec)});
}

void RunWatch::note_end(const shadow::Program& program) {
  const bool is_short = out_of_time_ || memory_is_short();
  if (!is_short || left_.size() == profile::kMostEndedEarly) return;
  const char* why = out_of_time_ ? kOutOfProcessorTime : kMemoryIsShort;
  left_.push_back(
      {elapsed(), {}, fmt::format("process {} went on unprofiled: {}", program.pid().value, why)});
}

void RunWatch::note_setting(std::string name, std::string value) {
  if (changes_.size() < profile::kMostChanges)
    changes_.push_back({elapsed(), std::move(name), std::move(value)});
}

void RunWatch::fill(profile::Profile& profile) const {
  profile.run.changes.insert(profile.run.changes.end(), changes_.begin(), changes_.end());
  for (const profile::Image& image : executed_) note_image(profile.run, image.at_s, image.command);
  profile.coverage.ended_early.insert(profile.coverage.ended_early.end(), left_.begin(),
                                      left_.end());
}

void RunWatch::warn_once(const std::string& sentence) {
  if (std::find(warnings_.begin(), warnings_.end(), sentence) == warnings_.end()) {
    warnings_.push_back(sentence);
  }
}

}  // namespace shadowprof::sample
