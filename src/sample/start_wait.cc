// SPDX-License-Identifier: MIT
#include "sample/start_wait.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "plan/jitter.h"
#include "ptrace/wait.h"
#include "sample/host.h"

namespace shadowprof::sample {
namespace {

using ptrace::WaitOutcome;

constexpr double kSoonestLook_s = 0.001;
constexpr double kSleepersLook_s = 0.02;  // where it was found asleep, or could not be stopped
constexpr double kLongestNapOfStart_s = 1.0;
constexpr unsigned kMostReportsAtOnce = 1000;

}  // namespace

StartWait::StartWait(std::string function, double share, bool follow_exec, uint64_t seed)
    : function_(std::move(function)),
      share_(share),
      follow_exec_(follow_exec),
      part_(function_, std::time(nullptr)),
      random_(seed) {}

bool StartWait::wait(shadow::Program& program, bool is_new, ControlSocket* control,
                     std::string file) {
  file_ = std::move(file);
  generation_ = program.generation();
  program.leave_signalled(true);
  if (is_new) (void)ptrace::Tracee(program.pid()).cont_if_alive();
  info("waiting for {}", printable(function_));
  while (program.alive() && !is_lost_) {
    watch_.look(program);
    handle_reports(program);
    if (!program.alive() || is_lost_ || was_stopped_ || watch_.must_stop()) break;
    if (program.generation() != 0 && !follow_exec_) break;
    if (control != nullptr) control->serve(now(), controlled(program));
    if (watch_.take_dump_wish()) warn("no profile yet: sampling waits for {}", function_);
    if (now() >= next_look_s_ && look(program)) {
      seen_at_s_ = now();
      detail("sampling begins after {:.3f} s and {} looks", *seen_at_s_, looks_);
      return true;
    }
    watch_.wait_until(std::min(now() + kLongestNapOfStart_s, next_look_s_), program);
  }
  watch_.note_end(program);
  watch_.warn_once(fmt::format("nothing was sampled: {} was not seen in {} look{}",
                               printable(function_), looks_, looks_ == 1 ? "" : "s"));
  // Who waits for the program's end next is to hear of it, too.
  if (watch_.interrupted()) ::kill(::getpid(), kFrontDied);
  return false;
}

// In the pause nothing is read but registers and, where they do not tell, a stack. Moments are
// random, so that no rhythm of the program hides between them.
bool StartWait::look(shadow::Program& program) {
  next_look_s_ = now() + kSleepersLook_s;
  program.adopt_new_threads();
  if (!program.is_running()) return false;
  part_.learn_code(program.pid());
  const double begun = now();
  bool is_usable = false, has_stopped_any = false, found = false;
  double went_on_s = 0;
  {
    shadow::Pause paused(program);
    is_usable = paused.is_usable().has_value();
    if (is_usable) found = part_.is_executed(program.pid(), paused.threads());
    has_stopped_any = paused.has_stopped_any();
    went_on_s = paused.went_on_s();
  }
  looks_ += is_usable;
  const double cost_s = has_stopped_any ? std::max(0.0, now() - begun - went_on_s) : 0;
  spent_s_ += cost_s;
  const double paid_s = plan::jitter(random_) * cost_s / share_;
  next_look_s_ = now() + std::max(is_usable ? kSoonestLook_s : kSleepersLook_s, paid_s);
  return found;
}

void StartWait::handle_reports(shadow::Program& program) {
  for (unsigned reports = 0; reports < kMostReportsAtOnce && program.alive(); reports++) {
    const WaitOutcome outcome = ptrace::wait_any(ptrace::WaitMode::poll);
    if (outcome.kind == WaitOutcome::Kind::no_children) is_lost_ = !program.follow_unseen_exec();
    if (!outcome.has_status()) return;
    handle(program, outcome);
  }
}

void StartWait::handle(shadow::Program& program, const WaitOutcome& outcome) {
  if (program.owns(outcome.tid)) {
    program.on_stop(outcome.tid, outcome.status);
    note_executed(program);
  } else if (outcome.status.is_stop()) {
    // A thread that began to be traced as it ended.
    (void)ptrace::Tracee(outcome.tid).cont_if_alive();
  }
}

void StartWait::note_executed(const shadow::Program& program) {
  if (std::exchange(generation_, program.generation()) == program.generation()) return;
  part_.forget(program.pid());
  watch_.note_exec(program);
  if (!follow_exec_) watch_.note_left(program);
}

ControlledRun StartWait::controlled(const shadow::Program& program) {
  const auto not_yet = [this] {
    return fail("sampling has not begun: it waits for {}", printable(function_));
  };
  return {.who = [&program] { return words_of({program.pid()}); },
          .status =
              [this, &program] {
                RunStatus status;
                status.pids = {program.pid()};
                status.mode = "waiting";
                status.overhead_share = now() > 0 ? spent_s_ / now() : 0;
                status.max_overhead_share = share_;
                status.file = file_;
                return status_text(status) + "waits-for: " + printable(function_) + "\n";
              },
          .dump = [not_yet]() -> Result<uint64_t> { return not_yet(); },
          .dumped = [not_yet](uint64_t) -> Result<bool> { return not_yet(); },
          .stop = [this] { was_stopped_ = true; },
          .set_max_overhead = [this](double share) { share_ = share; },
          .set = [not_yet](const RunSetting&) -> Result<std::string> { return not_yet(); }};
}

void StartWait::fill(profile::Profile& profile) const {
  watch_.fill(profile);
  profile.run.start_at = {function_, seen_at_s_};
}

}  // namespace shadowprof::sample
