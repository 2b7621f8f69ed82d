// SPDX-License-Identifier: MIT
#include "shadow/pause.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "base/elapsed.h"
#include "ptrace/deliver.h"
#include "shadow/engine_clock.h"
#include "shadow/thread_looks.h"

namespace shadowprof::shadow {

using ptrace::StopEvent;
using ptrace::WaitStatus;

namespace {

// For the threads that a pause has asked to stop, from when the first of them has: the others of a
// program on an overloaded host wait for a processor, and are not waited for.
constexpr std::chrono::milliseconds kMostStanding{100};
constexpr std::string_view kRunningOrAsleep = "RS";

// How long a thread that was asked to stop had to wait for a processor before it could.
class WaitBeforeStop {
 public:
  explicit WaitBeforeStop(Tid thread)
      : thread_(thread), before_s_(waited_s(thread)), own_before_s_(waited_s(own_thread())) {}

  // It is asked next: what comes before that is no wait.
  void asked() { asked_at_ = std::chrono::steady_clock::now(); }
  // It has stopped. Up to now it ran, or waited, or had stopped while we waited.
  double seconds() const {
    constexpr double kAtOnce_s = std::chrono::duration<double>(kAtOnce).count();
    double most_s = seconds_since(asked_at_) - kAtOnce_s;
    if (most_s <= 0) return 0;
    most_s -= waited_s(own_thread()) - own_before_s_;
    return std::max(0.0, std::min(most_s, waited_s(thread_) - before_s_));
  }

 private:
  static Tid own_thread() { return Tid(::gettid()); }
  static double waited_s(Tid thread) { return processor_time_of(thread).waited; }

  Tid thread_;
  double before_s_, own_before_s_;
  std::chrono::steady_clock::time_point asked_at_;
};

}  // namespace

// What its caller knows of a program that has executed another one meanwhile is out of date.
Pause::Pause(Program& program, Whom whom, uint64_t number) : program_(program) {
  const unsigned generation = program.generation_;
  if (whom == Whom::one) {
    stop_one();
  } else if (whom == Whom::one_running) {
    stop_one_running(number);
  } else {
    stop_all(whom == Whom::running ? kRunning : kRunningOrAsleep);
  }
  unusable_ = unusable_ || program.generation_ != generation;
}

void Pause::stop_one() {
  for (Tid tid : program_.threads()) {
    if (program_.interrupt(tid)) take_stop(tid);
    if (!threads_.empty() || unusable_) return;
  }
}

void Pause::stop_one_running(uint64_t number) {
  const auto begun = std::chrono::steady_clock::now();
  program_.adopt_new_threads();
  std::vector<Tid> running;
  for (const auto& [tid, thread] : program_.threads_)
    if (!thread.cut.is_active() && is_in_state(program_.pid_, tid, kRunning))
      running.push_back(tid);
  if (running.empty()) return;
  const Tid tid = running[number % running.size()];
  WaitBeforeStop wait(tid);
  went_on_s_ = seconds_since(begun);
  wait.asked();
  if (!program_.interrupt(tid, Program::Found::awake)) return;
  take_stop(tid);
  if (!threads_.empty()) went_on_s_ += wait.seconds();
}

void Pause::stop_all(std::string_view states) {
  const auto found = states == kRunning ? Program::Found::awake : Program::Found::perhaps_asleep;
  std::set<Tid> stopped;
  std::optional<WaitBeforeStop> first;
  const auto begun = std::chrono::steady_clock::now();
  for (bool others = true; others && !unusable_ && !is_overdue();
       others = program_.threads_.size() > 1) {
    program_.adopt_new_threads();
    std::vector<Tid> interrupted;
    for (const auto& [tid, thread] : program_.threads_) {
      const bool sleeps = states == kRunning && thread.cut.is_active();
      if (sleeps || stopped.contains(tid) || !is_in_state(program_.pid_, tid, states)) continue;
      if (stopped.empty() && interrupted.empty()) {
        first.emplace(tid);
        if (!is_in_state(program_.pid_, tid, states)) continue;  // after that took time
        went_on_s_ = seconds_since(begun);
        first->asked();
      }
      if (program_.interrupt(tid, found)) interrupted.push_back(tid);
    }
    if (interrupted.empty()) break;
    if (interrupted.size() > 1 && !asked_since_) asked_since_ = std::chrono::steady_clock::now();
    // Only now: each must get a processor before it stops.
    for (Tid tid : interrupted) {
      take_stop(tid);
      stopped.insert(tid);
    }
    if (first && stopped.size() == 1) went_on_s_ += first->seconds();
    first.reset();
  }
  unusable_ = unusable_ || is_overdue();  // not all that run were asked, perhaps
}

void Pause::take_stop(Tid tid) {
  const auto since = some_stand_since();
  const ptrace::Moment give_up_at = since ? *since + kMostStanding : ptrace::Moment::max();
  const auto taken = program_.take(tid, give_up_at);
  if (!taken) {
    unusable_ = unusable_ || taken.error().errno_value != EAGAIN;
    return;  // it is dying, or becomes another program
  }
  const ptrace::Tracee tracee(tid);
  if (program_.has_cut_call(tid)) {
    program_.resume_from(tracee, taken->stop);
    const auto end = program_.wait_for_cut_call(tid);
    if (end == Program::CutCallEnd::never) unusable_ = true;
    return end == Program::CutCallEnd::soon ? take_stop(tid) : void();
  }
  if (!stands_since_) stands_since_ = std::chrono::steady_clock::now();
  const bool usable =
      taken->stop.is_event(StopEvent::stop) || taken->stop.kind() == WaitStatus::Kind::signal_stop;
  if (!usable) unusable_ = true;
  threads_.push_back({tracee, taken->stop, taken->registers});
}

std::optional<ptrace::Moment> Pause::some_stand_since() const {
  return asked_since_ ? asked_since_ : stands_since_;
}

bool Pause::is_overdue() const {
  const auto since = some_stand_since();
  return since && std::chrono::steady_clock::now() - *since > kMostStanding;
}

Status Pause::is_usable() const {
  if (is_overdue())
    return fail_errno(
        ETIMEDOUT,
        "a sample was given up, as the program had stood still for {} ms: there are too "
        "few processors for all that runs",
        kMostStanding.count());
  if (threads_.empty() || unusable_) return fail_errno(EAGAIN, "the program sleeps");
  return {};
}

void Pause::give_back_signals(PausedThread& thread) {
  const bool for_signal = thread.stop.kind() == WaitStatus::Kind::signal_stop;
  const auto last = ptrace::give_back(thread.tracee, for_signal ? thread.stop.signal() : 0,
                                      std::exchange(thread.deferred, {}));
  if (last) thread.stop = WaitStatus::from_raw(*last << 8 | 0x7f);
}

void Pause::resume(PausedThread& thread) {
  if (program_.is_replaced(thread.tracee)) return;  // its event will be handled
  if (thread.registers.restart_pending()) program_.look_again_at_call(thread.tracee);
  // A call for us may have ended in a stop of the whole process, which is to last.
  WaitStatus now;
  if (thread.tracee.current_stop_if_alive(now) && now.kind() == WaitStatus::Kind::group_stop)
    thread.stop = now;
  if (!thread.deferred.empty()) give_back_signals(thread);
  program_.resume_from(thread.tracee, thread.stop);
}

void Pause::let_others_go() {
  for (; threads_.size() > 1; threads_.pop_back()) resume(threads_.back());
}

// A wait that sleeps until a report comes may take longer than all else here.
std::optional<WaitStatus> Pause::next_call_stop(ptrace::Tracee thread) {
  if (!thread.syscall_if_alive()) return std::nullopt;
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < kSoon) {
    const ptrace::WaitOutcome outcome = ptrace::wait_for(thread.tid(), ptrace::WaitMode::poll);
    if (!outcome.has_status()) continue;
    if (outcome.status.kind() == WaitStatus::Kind::syscall_stop) return outcome.status;
    program_.handle_stop(thread.tid(), outcome.status, 0, Program::MayLeave::no);
    return std::nullopt;
  }
  return std::nullopt;
}

bool Pause::walk_over_calls(unsigned calls) {
  PausedThread& thread = threads_.front();
  const kernel::ScheduleTimes before = kernel::schedule_times_of(thread.tracee.tid());
  while (calls > 0) {
    const auto stop = next_call_stop(thread.tracee);
    ptrace::Tracee::SyscallStopInfo info;
    if (!stop || !thread.tracee.get_registers_if_alive(thread.registers) ||
        !thread.tracee.get_syscall_stop_if_alive(info)) {
      if (stop) program_.handle_stop(thread.tracee.tid(), *stop, 0, Program::MayLeave::no);
      threads_.erase(threads_.begin());
      return false;
    }
    thread.stop = *stop;
    program_.see(thread.tracee, *stop, thread.registers);
    if (info.which == ptrace::Tracee::SyscallStop::exit) calls--;
  }
  const kernel::ScheduleTimes after = kernel::schedule_times_of(thread.tracee.tid());
  went_on_s_ += 1e-9 * static_cast<double>(after.used - before.used + after.waited - before.waited);
  return true;
}

// A sleep that the kernel continues by restart_syscall(2) is continued before any other thread
// runs: a filter that one of those puts upon the sleeper would judge that call.
void Pause::let_sleepers_go() {
  const auto continues_sleep = [](const PausedThread& thread) {
    return static_cast<int64_t>(thread.registers.rax) == machine::kRestartBlock;
  };
  const auto sleepers = std::stable_partition(threads_.begin(), threads_.end(),
                                              [&](const auto& t) { return !continues_sleep(t); });
  if (sleepers == threads_.begin()) return;  // nobody else runs
  std::vector<uint64_t> used_before;
  for (auto it = sleepers; it != threads_.end(); ++it) {
    used_before.push_back(kernel::schedule_times_of(it->tracee.tid()).used);
    resume(*it);
  }
  // It sleeps, or what it waited for has come, and it computes.
  const auto has_gone_on = [&](Tid tid, uint64_t used) {
    return !is_in_state(program_.pid(), tid, kRunning) ||
           kernel::schedule_times_of(tid).used != used;
  };
  const auto begun = std::chrono::steady_clock::now();
  for (auto it = sleepers; it != threads_.end(); ++it) {
    const uint64_t used = used_before[static_cast<size_t>(it - sleepers)];
    while (!has_gone_on(it->tracee.tid(), used) &&
           std::chrono::steady_clock::now() - begun < kMostStanding)
      std::this_thread::sleep_for(kSoon / 20);
  }
  threads_.erase(sleepers, threads_.end());
}

Pause::~Pause() {
  let_sleepers_go();
  for (PausedThread& thread : threads_) resume(thread);
}

}  // namespace shadowprof::shadow
