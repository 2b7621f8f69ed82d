// SPDX-License-Identifier: MIT
#include "sample/burst_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/log.h"
#include "base/processor_time.h"
#include "base/progress.h"
#include "sample/host.h"
#include "sample/sampled_program.h"

namespace shadowprof::sample {

using ptrace::StopEvent;
using ptrace::WaitOutcome;

namespace {

constexpr double kLongestWait_s = 1.0;
// What a stop costs the thread on top of the time that we work for it: two switches between
// processes that may be on different cores.
constexpr double kSwitch_s = 10e-6;
// A thread that has just been served is likely to need us again soon: for so long it is not waited
// for but asked, which saves a switch.
constexpr double kEager_s = 30e-6;
// So many times its length may a burst last longer, in which the program does not get on.
constexpr double kMostDelayRatio = 9;
// Whoever wants us to end is heard even by a program that always has something to report.
constexpr unsigned kReportsInARow = 1000;
// For threads that sleep in the code cache when we detach.
constexpr double kLeavePatience_s = 1.0;

// Bursts are few where new code is translated while the program waits: peeks get more of the
// budget.
plan::Wishes with_peeks(plan::Wishes wishes) {
  wishes.peek_share = plan::kLookShare;
  return wishes;
}

}  // namespace

BurstRun::BurstRun(shadow::Program program, std::unique_ptr<BurstEngine> engine,
                   collect::SampleWeights& weights, BurstRunOptions options,
                   const plan::Wishes& wishes)
    : time_(options.time, wishes.max_overhead_share, options.seed, access()),
      program_(std::move(program)),
      engine_(std::move(engine)),
      weights_(weights),
      options_(options),
      plan_(with_peeks(wishes)),
      ledger_(wishes.max_overhead_share, wishes.delay_s),
      random_(options.seed) {
  generation_ = program_.generation();
  signals_before_ = program_.signals();
  // The code cache may have a thread that sleeps in it.
  program_.leave_signalled(engine_->is_in_our_process());
  if (!program_.is_ours()) cpu_before_ = program_cpu_now();
  if (program_.is_ours() && options_.begins_late)
    cpu_before_ = processor_seconds_of(program_.pid()).value_or(
        processor_seconds_of(RUSAGE_CHILDREN));  // it has ended
  time_.begin(program_.pid(), elapsed());
}

BurstRun::~BurstRun() = default;

// All its threads' together, those that have ended included; to the nanosecond.
double BurstRun::program_cpu_now() const {
  return processor_seconds_of(program_.pid()).value_or(cpu_before_ + cpu_s_);
}

void BurstRun::let_go() {
  (void)ptrace::Tracee(program_.pid()).cont_if_alive();
}

void BurstRun::run() {
  Progress progress("bursts");
  while (program_.alive() && !is_lost_) {
    if (progress.is_due())
      progress.set(fmt::format("bursts, {:.2f} % overhead", 100 * ledger_.spent_share(elapsed())));
    watch_.look(program_);
    for (unsigned reports = 0; reports < kReportsInARow && handle_report(); reports++) {
    }
    if (!program_.alive() || is_lost_) break;
    const double now = elapsed();
    time_.look(now);
    ledger_.spend(plan::Cause::clock, time_.take_cost());
    ledger_.charge_signals(program_.signals() - signals_before_, {});
    if (!program_.is_ours()) cpu_s_ = program_cpu_now() - cpu_before_;
    if (options_.meanwhile) options_.meanwhile(now);
    if (leaves_ || watch_.must_stop() || (options_.duration > 0 && now >= options_.duration)) break;
    carry_out(is_refused_ ? plan::Step() : plan_.next(situation(), ledger_, {}));
  }
  time_.end(elapsed());
  if (!program_.alive() || is_lost_) {
    sampling_s_ = elapsed();
    if (program_.is_ours()) cpu_s_ = processor_seconds_of(RUSAGE_CHILDREN) - cpu_before_;
    engine_->forget_program();
    return;
  }
  cpu_s_ = program_cpu_now() - cpu_before_;
  watch_.note_end(program_);
  leave_program();
  sampling_s_ = elapsed();
  if (options_.when_over) options_.when_over();
  if (program_.is_ours() && !watch_.interrupted()) watch_.wait_for_end(program_);
}

plan::Situation BurstRun::situation() const {
  plan::Situation s;
  s.now_s = elapsed();
  s.used_s = s.now_s;
  s.may_fork = false;
  s.most_replicas = 0;
  s.may_peek = options_.prefill;
  return s;
}

void BurstRun::carry_out(const plan::Step& step) {
  if (step.what == plan::What::burst) return burst();
  if (step.what == plan::What::peek) return look();
  double next = elapsed() + kLongestWait_s;
  if (!is_refused_) next = std::min(next, step.at_s);
  next = std::min(next, std::max(elapsed(), time_.next()));
  if (options_.duration > 0) next = std::min(next, options_.duration);
  watch_.wait_until(next, program_);
}

bool BurstRun::handle_report() {
  const WaitOutcome outcome = engine_->poll();
  if (outcome.kind == WaitOutcome::Kind::no_children) is_lost_ = !program_.follow_unseen_exec();
  if (!outcome.has_status()) return false;
  handle(outcome);
  return true;
}

ProgramAccess BurstRun::access() {
  const auto find = [this](Tid process) { return process == program_.pid() ? &program_ : nullptr; };
  const auto serve = [this](Tid thread) {
    const WaitOutcome outcome = ptrace::wait_for(thread, ptrace::WaitMode::poll);
    if (outcome.has_status()) handle(outcome);
  };
  return {find, serve};
}

void BurstRun::handle(const WaitOutcome& outcome) {
  const Tid tid = outcome.tid;
  if (outcome.status.is_event(StopEvent::exec)) {
    (void)ptrace::Tracee(tid).set_options_if_alive(program_.options());
    program_.on_stop(tid, outcome.status);
    return note_exec();
  }
  const bool native = !engine_->owns(tid) || !engine_->serve(tid, outcome.status);
  if (native || outcome.status.is_dead()) program_.on_stop(tid, outcome.status);
}

// If it has executed another program: an event has told, or it was seen to be another one.
void BurstRun::note_exec() {
  if (std::exchange(generation_, program_.generation()) == program_.generation()) return;
  engine_->forget_program();
  if (options_.only != nullptr) options_.only->forget(program_.pid());
  watch_.note_exec(program_);
  leaves_ = !options_.follow_exec;
  if (leaves_) watch_.note_left(program_);
  plan_.forget_code(elapsed());
}

// What the engine puts into the program for all its threads is put there while none of them can
// look, nor fork. False: not now.
bool BurstRun::make_ready() {
  program_.adopt_new_threads();
  note_exec();
  if (engine_->is_open(program_.thread_count())) return true;
  const double begun = elapsed();
  Status opened = fail_errno(EAGAIN, "the program is ending");
  {
    shadow::Pause everyone(program_, shadow::Pause::Whom::everyone);
    engine_->regain(everyone);
    if (!everyone.threads().empty() && !everyone.unusable()) {
      opened = engine_->open(everyone, program_.thread_count());
    }
  }
  const double now = elapsed();
  counts_.pauses.push_back(now - begun);
  ledger_.spend(plan::Cause::pause, now - begun);
  if (opened) return true;
  counts_.refused++;
  refuse(opened.error());
  return false;
}

// A program that allows no call of ours is not stopped again and again to be told so.
void BurstRun::refuse(const Error& why) {
  if (why.errno_value == EAGAIN || why.errno_value == ESRCH) return;
  watch_.warn_once(why.message);
  is_refused_ = why.errno_value == EPERM;
}

double BurstRun::random_length() {
  return options_.length * plan::jitter(random_);
}

void BurstRun::note_burst(uint64_t instructions) {
  counts_.bursts++;
  counts_.instructions += instructions;
}

// What was attempted at `now` has failed, after a pause of so many seconds; 0: there was none.
void BurstRun::note_missed(const Error& why, double now, double pause_s) {
  engine_->conclude();
  if (why.errno_value == ECANCELED) {
    counts_.elsewhere++;
    counts_.pauses.push_back(pause_s);
    ledger_.spend(plan::Cause::peek, pause_s);
    return plan_.elsewhere(now, pause_s);
  }
  const bool sleeps = why.errno_value == EAGAIN;
  (!sleeps ? counts_.refused : is_stopped(program_.pid()) ? counts_.stopped : counts_.sleeping)++;
  refuse(why);
  if (pause_s != 0) ledger_.spend(plan::Cause::pause, pause_s);
  plan_.missed(now, plan::What::burst, sleeps ? plan::kToBeMet_s : plan::kLongestRetry_s);
}

void BurstRun::burst() {
  if (!make_ready()) return plan_.missed(elapsed(), plan::What::burst);
  engine_->look_at(program_);
  if (options_.only != nullptr) options_.only->learn_code(program_.pid());
  const double begun = elapsed();
  const double cpu_before = program_cpu_now();
  const uint64_t number = weights_.taken(program_.pid().value, cpu_before);
  engine_->number_next(number);
  Status in;
  size_t threads = 0;
  double stood_from = begun;
  {
    shadow::Pause paused(program_);
    engine_->regain(paused);
    threads = paused.threads().size();
    in = paused.is_usable();
    if (in) in = check_part(options_.only, paused);
    if (in) in = engine_->begin(paused);
    stood_from += paused.went_on_s();
  }
  const double running = elapsed();
  if (!in) {
    weights_.withdraw(number);
    return note_missed(in.error(), running, threads == 0 ? 0 : running - stood_from);
  }
  service_s_ = 0;
  run_burst(random_length());
  const double ending = elapsed();
  const char* reason = engine_->is_over() ? engine_->reason() : "budget";
  engine_->end();
  const double native = elapsed();
  const double cpu =
      engine_->is_in_our_process() ? ending - running : program_cpu_now() - cpu_before;
  const uint64_t instructions = engine_->conclude();
  if (engine_->shares()) {
    weights_.recorded(number, instructions, *engine_->shares(), {}, engine_->drawn());
  } else {
    weights_.withdraw(number);
  }

  note_burst(instructions);
  counts_.burst_s += ending - running;
  counts_.burst_cpu_s += cpu;
  if (engine_->halts_program()) {
    counts_.pauses.push_back(native - stood_from);
  } else {
    counts_.pauses.push_back(running - stood_from);
    counts_.pauses.push_back(native - ending);
  }
  const double stopped = running - stood_from + native - ending;
  counts_.timeline.push_back(timeline_row(
      begun, 1, instructions, engine_->halts_program() ? native - stood_from : stopped,
      native - stood_from));
  counts_.ended[program_.alive() ? reason : "exits"]++;
  const auto sharers = static_cast<double>(std::max<size_t>(1, threads));
  double cost = running - stood_from + native - ending + service_s_ / sharers +
                cpu / sharers * (1 - 1 / options_.slow_down);
  if (engine_->halts_program()) cost = native - stood_from;
  detail(
      "burst {} at {:.3f} s: {} instructions, {:.2f} ms, {} threads, paused {:.0f} + {:.0f} us, "
      "served {:.0f} us",
      counts_.bursts, begun, instructions, 1e3 * (ending - running), threads,
      1e6 * (running - stood_from), 1e6 * (native - ending), 1e6 * service_s_);
  if (options_.prefill) (void)engine_->prepare();
  ledger_.spend(plan::Cause::pause, cost);
  plan_.burst(elapsed(), elapsed(), cost);
}

// How much longer a burst is to last, in seconds. It has its length in the program's processor time
// too: code that is new to the engine would otherwise be seen for fewer instructions than code that
// it knows, and all code for fewer where processors are scarce.
double BurstRun::left_of(const Burst& burst, double now) const {
  const double wall = burst.length - (now - burst.begun);
  if (wall > 0 || engine_->halts_program()) return wall;
  const double cpu = burst.length - (program_cpu_now() - burst.cpu_begun);
  return std::min(cpu, wall + kMostDelayRatio * burst.length);
}

void BurstRun::run_burst(double length) {
  const Burst burst{length, elapsed(), program_cpu_now()};
  double served_at = burst.begun;
  while (program_.alive() && !engine_->is_over() && !watch_.must_stop()) {
    const double now = elapsed();
    const double left = left_of(burst, now);
    if (left <= 0) return;
    if (handle_report()) {
      served_at = elapsed();
      service_s_ += served_at - now + kSwitch_s;
      continue;
    }
    if (!engine_->work() && now > served_at + kEager_s) watch_.wait_until(now + left, program_);
  }
}

// Where is the program? Costs it a short stop.
void BurstRun::look() {
  if (!make_ready()) return plan_.missed(elapsed(), plan::What::peek);
  const double begun = elapsed();
  size_t threads = 0;
  {
    shadow::Pause paused(program_);
    engine_->regain(paused);
    threads = paused.threads().size();
    if (threads != 0 && !paused.unusable()) engine_->look(paused);
  }
  const double pause = elapsed() - begun;
  if (threads != 0) {
    counts_.looks++;
    counts_.pauses.push_back(pause);
    ledger_.spend(plan::Cause::peek, pause);
  }
  const size_t translated = engine_->prepare();
  plan_.peeked(elapsed(), pause, translated != 0);
}

void BurstRun::leave_program() {
  const double deadline = elapsed() + kLeavePatience_s;
  engine_->wake_sleepers();
  while (engine_->has_sleepers() && program_.alive() && elapsed() < deadline) {
    if (!handle_report()) watch_.wait_until(std::min(deadline, elapsed() + 0.001), program_);
  }
  while (handle_report()) {
  }
  if (!program_.alive()) return engine_->forget_program();
  {
    shadow::Pause paused(program_, shadow::Pause::Whom::one);
    engine_->regain(paused);
    if (const Status removed = engine_->remove(paused); !removed) {
      watch_.warn_once("memory of ours stays mapped in the program: " + removed.error().message);
    }
  }
  engine_->forget_program();
  program_.detach();
}

}  // namespace shadowprof::sample
