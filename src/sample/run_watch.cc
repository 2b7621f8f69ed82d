// SPDX-License-Identifier: MIT
#include "sample/run_watch.h"

#include <algorithm>
#include <csignal>
#include <ctime>

#include "ptrace/wait.h"
#include "sample/host.h"

namespace shadowprof::sample {
namespace {

constexpr double kLongestWait = 1.0;

}  // namespace

double RunWatch::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

// Signals are blocked in all our threads, so none is lost between a look and the wait.
void RunWatch::wait_until(double moment, const shadow::Program& program) {
  const double left = std::max(0.0, moment - elapsed());
  timespec time{};
  time.tv_sec = static_cast<time_t>(left);
  time.tv_nsec = static_cast<long>(1e9 * (left - static_cast<double>(time.tv_sec)));
  const sigset_t awaited = awaited_signals();
  const int signal = ::sigtimedwait(&awaited, nullptr, &time);
  if (signal <= 0 || signal == SIGCHLD) return;
  if (signal == kFrontDied || !program.is_ours()) {
    interrupted_ = true;
  } else if (signal != SIGINT && signal != SIGQUIT && program.alive()) {
    ::kill(program.pid().value, signal);
  }
}

void RunWatch::wait_for_end(shadow::Program& program) {
  while (program.alive() && !interrupted_) {
    const ptrace::WaitOutcome outcome = ptrace::wait_for(program.pid(), ptrace::WaitMode::poll);
    if (outcome.has_status() && outcome.status.is_dead()) {
      program.on_stop(outcome.tid, outcome.status);
    } else {
      wait_until(elapsed() + kLongestWait, program);
    }
  }
}

void RunWatch::warn_once(const std::string& sentence) {
  if (std::find(warnings_.begin(), warnings_.end(), sentence) == warnings_.end()) {
    warnings_.push_back(sentence);
  }
}

}  // namespace shadowprof::sample
