// SPDX-License-Identifier: MIT
#include "shadow/program.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "base/elapsed.h"
#include "base/log.h"
#include "ptrace/default_action.h"
#include "ptrace/deliver.h"
#include "ptrace/interruption.h"
#include "ptrace/remote_memory.h"
#include "ptrace/signal_cause.h"

namespace shadowprof::shadow {

using ptrace::StopEvent;
using ptrace::WaitStatus;

namespace {

// With threads that wait uninterruptibly when we leave.
constexpr std::chrono::milliseconds kMostPatience{300};
// For the threads that a pause has asked to stop, from when the first of them has: the others of a
// program on an overloaded host wait for a processor, and are not waited for.
constexpr std::chrono::milliseconds kMostStanding{100};
// When most calls that an interrupt cuts short are over.
constexpr std::chrono::microseconds kSoon{200};
// Who has stopped by then was on a processor when it was asked: no schedule is that quick.
constexpr std::chrono::microseconds kAtOnce{15};

// States of threads that a pause stops.
constexpr std::string_view kRunning = "R";
constexpr std::string_view kAny = "RS";

bool is_birth(const WaitStatus& status) {
  return status.is_event(StopEvent::fork) || status.is_event(StopEvent::vfork);
}

// By default, if that was not changed: no call sleeps on then.
bool may_stop_the_process(int signal) {
  return ptrace::default_action(signal) == ptrace::DefaultAction::stop;
}

bool has_handler(Tid thread, int signal) {
  const auto status = kernel::read_status(thread);
  return status && (status->caught & ptrace::mask_of(signal));
}

ptrace::ForwardProgress::Fate fate_of(Tid thread, int signal) {
  using enum ptrace::ForwardProgress::Fate;
  if (signal == 0) return no_signal;
  const auto status = kernel::read_status(thread);
  if (!status) return other;
  if (status->caught & ptrace::mask_of(signal)) return handled;
  const bool is_ignored = (status->ignored & ptrace::mask_of(signal)) ||
                          ptrace::default_action(signal) == ptrace::DefaultAction::none;
  return is_ignored ? ignored : other;
}

bool is_in_state(Tid process, Tid thread, std::string_view states) {
  const auto stat = kernel::read_thread_stat(process, thread);
  return stat && states.find(stat->state) != states.npos;
}

// An interrupt would cut its call short, and nobody could go on with it.
bool sleeps_between_bytes(Tid process, Tid thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", process.value, thread.value));
  uint64_t number = 0, arguments[4];
  if (!(file >> number)) return false;
  for (uint64_t& argument : arguments) file >> std::hex >> argument;
  return file && ptrace::CutCall::may_sleep_between_bytes(number, arguments[3]);
}

kernel::ScheduleTimes times_of(Tid thread) {
  return kernel::read_schedstat(thread).value_or(kernel::ScheduleTimes{});
}

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
  static double waited_s(Tid thread) {
    return 1e-9 * static_cast<double>(times_of(thread).waited);
  }

  Tid thread_;
  double before_s_, own_before_s_;
  std::chrono::steady_clock::time_point asked_at_;
};

// What take() has failed with: else the thread stops later.
bool is_gone(const Error& error) {
  return error.errno_value == ESRCH;
}

bool is_at_exec(ptrace::Tracee thread) {
  WaitStatus stop;
  return thread.current_stop_if_alive(stop) && stop.is_event(StopEvent::exec);
}

}  // namespace

// A system call of the tracer's needs the first; the second tells that the memory is another one.
ptrace::TraceOptions trace_options(Follow follow) {
  using enum ptrace::TraceOptions;
  const auto always = mark_syscall_stops | report_exec;
  return follow == Follow::children ? always | follow_fork | follow_vfork : always;
}

Program Program::launched(ptrace::Tracee process, Follow follow) {
  Program program(process.tid(), follow);
  program.is_child_ = true;
  program.threads_[process.tid()];
  (void)process.set_options_if_alive(program.options());
  return program;
}

Program Program::born(Tid process) {
  Program program(process, Follow::children);
  program.threads_[process];
  return program;
}

Result<Program> Program::attach(Tid process, Follow follow) {
  Program program(process, follow);
  SP_TRY(ptrace::seize(process, program.options()));
  program.threads_[process];
  program.adopt_new_threads();
  return program;
}

bool Program::follow_unseen_exec() {
  may_be_lost_ = false;
  const auto status = kernel::read_status(pid_);
  if (!status || status->tracer != Tid()) return false;
  if (const auto seized = ptrace::seize(pid_, options()); !seized) {
    may_be_lost_ = seized.error().errno_value == EAGAIN;
    return false;
  }
  begin_anew();
  return true;
}

void Program::adopt(Left those_left) {
  if (may_be_lost_) (void)follow_unseen_exec();
  for (bool found_one = true; found_one;) {
    found_one = false;
    const auto listed = kernel::list_threads(pid_);
    if (!listed) break;
    std::erase_if(left_, [&](Tid tid) { return !std::ranges::binary_search(*listed, tid); });
    bool is_checked = false;
    for (Tid tid : *listed) {
      if (threads_.contains(tid)) continue;
      if (those_left == Left::alone && left_.contains(tid)) continue;
      if (!std::exchange(is_checked, true) && follow_unseen_exec()) {
        found_one = true;
        break;
      }
      const auto stat = kernel::read_thread_stat(pid_, tid);
      if (stat && kernel::is_kernel_worker(*stat)) continue;
      // One that is dying cannot be traced any more; it does not matter. All are, in an exec.
      const auto seized = ptrace::seize(tid, options());
      if (!seized && seized.error().errno_value == EAGAIN) return;
      if (!seized) continue;
      found_one = true;
      if (has_become_process(tid)) {
        begin_anew();
        break;
      }
      threads_[tid];
    }
  }
}

// Who is in execve is seized when that is over, and has the process's number by then. Nobody else
// who has just been seized vanishes: even the dead wait for us. Where it was seized before, the
// event will tell.
bool Program::has_become_process(Tid tid) const {
  if (::syscall(SYS_tgkill, pid_.value, tid.value, 0) == 0 || errno != ESRCH) return false;
  return !is_at_exec(ptrace::Tracee(pid_));
}

// Does it stand at the exec event of another thread, which nobody has taken yet, instead of where
// we have stopped it? That one has its number now.
bool Program::is_replaced(ptrace::Tracee thread) const {
  return thread.tid() == pid_ && threads_.size() > 1 && is_at_exec(thread);
}

// However that ends: nobody else knows of the stop.
class Program::GoesOn {
 public:
  GoesOn(Program& program, Tid tid, const WaitStatus& status, MayLeave may_leave)
      : program_(program), thread_(tid), status_(status), may_leave_(may_leave) {}
  ~GoesOn() {
    const bool signalled = status_.kind() == WaitStatus::Kind::signal_stop;
    if (signalled && may_leave_ == MayLeave::yes &&
        program_.leave_to_itself(thread_, status_.signal()))
      return;
    program_.resume_from(thread_, status_);
  }
  GoesOn(const GoesOn&) = delete;
  GoesOn& operator=(const GoesOn&) = delete;

 private:
  Program& program_;
  ptrace::Tracee thread_;
  const WaitStatus& status_;
  MayLeave may_leave_;
};

void Program::on_stop(Tid tid, const WaitStatus& status, double waited) {
  handle_stop(tid, status, waited, leaves_signalled_ ? MayLeave::yes : MayLeave::no);
}

void Program::handle_stop(Tid tid, const WaitStatus& status, double waited, MayLeave may_leave) {
  if (status.is_dead()) {
    threads_.erase(tid);
    if (tid == pid_) end_ = status;
    return;
  }
  if (status.is_event(StopEvent::exec)) return on_exec(tid);
  const GoesOn goes_on(*this, tid, status, may_leave);
  ptrace::Registers registers;
  if (ptrace::Tracee(tid).get_registers_if_alive(registers))
    see(ptrace::Tracee(tid), status, registers, waited);
}

void Program::see(ptrace::Tracee thread, const WaitStatus& status, ptrace::Registers& registers,
                  double waited) {
  conceal(thread, status, registers);
  if (is_birth(status)) note_child(thread);
  if (status.kind() == WaitStatus::Kind::syscall_stop && log_) log_->on_stop(thread, waited);
}

Result<Program::Taken> Program::take(Tid tid, ptrace::Moment give_up_at) {
  SP_ASSIGN(const WaitStatus stop,
            ptrace::wait_for_stop(tid, ptrace::Patience::bounded, give_up_at));
  Taken taken{stop};
  if (!ptrace::Tracee(tid).get_registers_if_alive(taken.registers))
    return ptrace::thread_is_gone(tid);
  see(ptrace::Tracee(tid), stop, taken.registers);
  return taken;
}

bool Program::interrupt(Tid tid, Found found) {
  if (!ptrace::Tracee(tid).interrupt_if_alive()) {
    may_be_lost_ = may_be_lost_ || tid == pid_;
    return false;
  }
  Thread& thread = threads_[tid];
  thread.interrupted = true;
  thread.was_awake = found == Found::awake;
  return true;
}

size_t Program::thread_count() const {
  const auto is_untraced = [&](Tid tid) { return !threads_.contains(tid); };
  return threads_.size() + static_cast<size_t>(std::ranges::count_if(left_, is_untraced));
}

std::vector<Tid> Program::threads() const {
  std::vector<Tid> tids;
  for (const auto& [tid, thread] : threads_) tids.push_back(tid);
  return tids;
}

// The state comes last: nothing else is between it and the interrupt.
bool Program::look_at(Tid tid) {
  const auto known = threads_.find(tid);
  if (known == threads_.end()) return false;
  Thread& thread = known->second;
  SeenThread look;
  look.thread = tid;
  look.before = times_of(tid);
  if (!is_in_state(pid_, tid, kRunning)) return false;
  if (thread.look) return true;
  look.asked_at = SeenThread::Clock::now();
  if (!thread.cut.is_active() && !interrupt(tid, Found::awake)) return false;
  thread.look = look;
  if (thread.cut.is_active()) note_seen(tid, thread, thread.cut.original());
  return true;
}

bool Program::has_seen(Tid tid) const {
  return std::ranges::any_of(seen_, [&](const SeenThread& seen) { return seen.thread == tid; });
}

void Program::note_seen(Tid tid, Thread& thread, const ptrace::Registers& registers) {
  std::optional<SeenThread> look = std::exchange(thread.look, std::nullopt);
  if (!look) return;
  look->registers = registers;
  look->stopped_at = SeenThread::Clock::now();
  if (look->stopped_at - look->asked_at > kAtOnce) {
    if (const auto times = kernel::read_schedstat(tid)) look->at_stop = *times;
  }
  seen_.push_back(*look);
}

void Program::conceal(ptrace::Tracee thread, const WaitStatus& status,
                      ptrace::Registers& registers) {
  Thread& known = threads_[thread.tid()];
  known.progress.look(thread, status, registers);
  note_seen(thread.tid(), known, registers);
  if (status.is_trap()) known.interrupted = false;
  bool changed = mend_cut_call(thread, status, registers);
  if (changed || known.cut.is_active()) {
    // It is no sleep.
  } else if (status.is_trap()) {
    changed = status.is_event(StopEvent::stop) && ptrace::conceal_interruption(thread, registers);
  } else if (status.kind() == WaitStatus::Kind::signal_stop) {
    if (!may_stop_the_process(status.signal()) || is_namespace_init())
      changed = known.sleep.conceal(thread, registers, status.signal());
  } else if (known.interrupted) {
    changed = ptrace::conceal_interruption(thread, registers);
  }
  changed |= known.restarted.conceal(thread, registers);
  // It has just gone to sleep, so that its timeout may start anew. Before it could continue,
  // another thread might put a filter upon it.
  if (status.is_trap() && known.was_awake && thread_count() > 1)
    changed |= ptrace::begin_sleep_anew(registers);
  if (changed) (void)thread.set_registers_if_alive(registers);
  known.restarted.remember(registers);
  // Any other stop has taken the interrupt's place (kernel/signal.c, ptrace_stop), but not what it
  // does to the system call that begins or ends here.
  if (known.interrupted) (void)thread.interrupt_if_alive();
}

// True if changed.
bool Program::mend_cut_call(ptrace::Tracee thread, const WaitStatus& status,
                            ptrace::Registers& registers) {
  Thread& known = threads_[thread.tid()];
  const bool signalled = status.kind() == WaitStatus::Kind::signal_stop;
  if (known.cut.is_active())
    return known.cut.look(status, signalled && has_handler(thread.tid(), status.signal()),
                          registers);
  const bool by_us = status.is_trap() && status.is_event(StopEvent::stop);
  const bool by_signal = signalled && !may_stop_the_process(status.signal());
  if (!by_us && !by_signal) return false;
  if (!ptrace::CutCall::is_cut(thread, registers) ||
      (by_signal && has_handler(thread.tid(), status.signal())))
    return false;
  known.cut.begin(registers);
  // It is another call than the program has made.
  if (log_ && log_->follows(thread.tid())) log_->close();
  return true;
}

bool Program::has_cut_call(Tid tid) const {
  const auto it = threads_.find(tid);
  return it != threads_.end() && it->second.cut.is_active();
}

void Program::look_again_at_call(ptrace::Tracee thread) {
  ptrace::Registers registers;
  if (!thread.get_registers_if_alive(registers) ||
      static_cast<int64_t>(registers.rax) != machine::kRestartBlock)
    return;
  Thread& known = threads_[thread.tid()];
  if (ptrace::conceal_interruption(thread, registers) || known.restarted.conceal(thread, registers))
    (void)thread.set_registers_if_alive(registers);
}

void Program::note_child(ptrace::Tracee parent) {
  uint64_t child = 0;
  if (parent.get_event_message_if_alive(child)) children_.emplace_back(static_cast<int32_t>(child));
}

bool Program::is_running() {
  adopt(Left::alone);
  const auto runs = [&](Tid tid) { return is_in_state(pid_, tid, kRunning); };
  return std::ranges::any_of(threads(), runs) || std::ranges::any_of(left_, runs);
}

void Program::on_exec(Tid tid) {
  begin_anew();
  (void)ptrace::Tracee(tid).cont_if_alive();
}

// The kernel has ended all other threads; what is left has the process's id.
void Program::begin_anew() {
  threads_.clear();
  left_.clear();
  seen_.clear();
  threads_[pid_];
  generation_++;
}

// Past its system calls, or to the next one of them.
void Program::go_on(ptrace::Tracee thread, int signal) {
  const auto found = threads_.find(thread.tid());
  Thread* known = found != threads_.end() ? &found->second : nullptr;
  const auto held = known != nullptr ? begin_hold(thread, *known, signal) : std::nullopt;
  const bool logged = log_ && log_->follows(thread.tid());
  const bool looked_at =
      known != nullptr && (known->progress.wants_calls() || known->cut.is_active());
  const bool to_next_call = logged || looked_at || held;
  (void)(to_next_call ? thread.syscall_if_alive(signal) : thread.cont_if_alive(signal));
  if (!held) return;
  std::this_thread::sleep_for(*held);
  (void)interrupt(thread.tid());
}

std::optional<std::chrono::microseconds> Program::begin_hold(ptrace::Tracee thread, Thread& known,
                                                             int signal) {
  if (known.cut.is_active() || !known.progress.is_in_storm()) return std::nullopt;
  return known.progress.begin_hold(thread, fate_of(thread.tid(), signal));
}

// A thread that stands still at each of its signals loses more than by all samples together where
// it is sent hundreds in a second. It is traced again when threads are listed next, as a new one
// is. The first thread stays, as it tells of the process's end; so does whoever might make
// processes that are followed, is still to stop for something, or is followed by a log. Where no
// handler runs a sleep is to go on that our being there has ended. To find out takes as long as a
// stop, so it is asked at its second signal, its fourth, its eighth; at its first if it was left
// before.
bool Program::leave_to_itself(ptrace::Tracee thread, int signal) {
  const auto found = threads_.find(thread.tid());
  if (found == threads_.end() || follow_ != Follow::no || thread.tid() == pid_) return false;
  Thread& known = found->second;
  const bool is_first = ++known.signals == 1 && !left_.contains(thread.tid());
  if (is_first || !std::has_single_bit(known.signals)) return false;
  const bool is_awaited = known.interrupted || known.look || known.cut.is_active() ||
                          (log_ && log_->follows(thread.tid()));
  if (is_awaited) return false;
  if (!has_handler(thread.tid(), signal)) return false;
  signals_++;
  (void)thread.detach_if_alive(signal);
  left_.insert(thread.tid());
  threads_.erase(found);
  return true;
}

// As it would have gone on without us.
void Program::resume_from(ptrace::Tracee thread, const WaitStatus& status) {
  switch (status.kind()) {
    case WaitStatus::Kind::signal_stop:
      signals_++;
      return let_die(thread, status.signal()) ? void() : go_on(thread, status.signal());
    case WaitStatus::Kind::group_stop:
      (void)thread.listen_if_alive();
      return;
    default:
      return go_on(thread);
  }
}

bool Program::is_namespace_init() {
  if (!is_namespace_init_) {
    const auto status = kernel::read_status(pid_);
    is_namespace_init_ = status && status->is_namespace_init();
  }
  return *is_namespace_init_;
}

// What kills the first process of a PID namespace natively does not where it is traced. It goes on
// without us, and does it again. Its end is reported if it is our child, or by its other threads.
bool Program::let_die(ptrace::Tracee thread, int signal) {
  if (!(ptrace::mask_of(signal) & ptrace::kInstructionSignals) || !is_namespace_init())
    return false;
  const auto status = kernel::read_status(thread.tid());
  siginfo_t info;
  ptrace::Registers registers;
  if (!status || (status->caught & ptrace::mask_of(signal)) ||
      !thread.get_siginfo_if_alive(info) || !thread.get_registers_if_alive(registers))
    return false;
  const ptrace::SignalCause cause = ptrace::cause_of(info, registers);
  if (!ptrace::is_synchronous(cause)) return false;
  ptrace::RemoteMemory memory(thread.tid());
  ptrace::raise_again(cause, memory, registers);
  if (!thread.set_registers_if_alive(registers) || !thread.detach_if_alive()) return false;
  if (thread.tid() == pid_ && !is_child_) end_ = WaitStatus::from_raw(signal);
  return true;
}

void Program::detach() {
  // All of them first: each must get a processor before it stops.
  std::set<Tid> asleep, ending;
  for (const auto& [tid, thread] : threads_) {
    if (sleeps_between_bytes(pid_, tid) && !thread.cut.is_active())
      asleep.insert(tid);
    else if (!interrupt(tid))
      ending.insert(tid);  // or nobody traces it any more
  }
  for (Tid tid : ending) threads_.erase(tid);
  const auto begun = std::chrono::steady_clock::now();
  while (threads_.size() > asleep.size() &&
         std::chrono::steady_clock::now() - begun < kMostPatience) {
    for (Tid tid : threads()) {
      if (!asleep.contains(tid) && try_detach(tid, ending)) threads_.erase(tid);
    }
    // One that executes a program waits until the ends of all others were taken.
    for (Tid tid : ending) {
      const ptrace::WaitOutcome outcome = ptrace::wait_for(tid, ptrace::WaitMode::poll);
      if (!outcome.has_status()) continue;
      if (outcome.status.is_dead())
        on_stop(tid, outcome.status);
      else
        (void)ptrace::Tracee(tid).detach_if_alive();
    }
    if (threads_.size() > asleep.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<Tid> in_calls;
  for (const auto& [tid, thread] : threads_) {
    if (thread.cut.is_active()) in_calls.push_back(tid);
  }
  for (Tid tid : in_calls) leave_cut_call(tid);
}

Program::CutCallEnd Program::wait_for_cut_call(Tid tid) {
  const ptrace::Moment give_up_at = std::chrono::steady_clock::now() + kSoon;
  for (;;) {
    const auto taken = take(tid, give_up_at);
    if (!taken) return is_gone(taken.error()) ? CutCallEnd::never : CutCallEnd::later;
    const bool over = taken->is_of_call() && !has_cut_call(tid) && interrupt(tid);
    resume_from(ptrace::Tracee(tid), taken->stop);
    if (over) return CutCallEnd::soon;
    if (!taken->is_of_call()) return CutCallEnd::later;
  }
}

// It waits for long, and is told what it has moved by now: better than only the last part of it,
// when it has no tracer any more.
void Program::leave_cut_call(Tid tid) {
  const ptrace::Tracee thread(tid);
  ptrace::CutCall& cut = threads_[tid].cut;
  for (;;) {
    if (!interrupt(tid)) return;
    auto taken = take(tid);
    if (!taken) return;
    // A call that begins with an interrupt moves what it can at once.
    if (cut.is_inside() && thread.syscall_if_alive()) continue;
    if (cut.is_active()) cut.finish(taken->registers);
    (void)thread.set_registers_if_alive(taken->registers);
    (void)thread.detach_if_alive(taken->signal());
    threads_.erase(tid);
    return;
  }
}

// False: it waits uninterruptibly, or goes on with a call that an interrupt has cut.
bool Program::try_detach(Tid tid, std::set<Tid>& ending) {
  const ptrace::Tracee thread(tid);
  const auto ends = [&] {
    ending.insert(tid);
    return true;
  };
  if (has_cut_call(tid)) {
    const CutCallEnd end = wait_for_cut_call(tid);
    if (end != CutCallEnd::soon) return end == CutCallEnd::never && ends();
  }
  // A stop has taken the interrupt's place where a signal has ended such a call.
  if (!threads_[tid].interrupted && !interrupt(tid)) return ends();
  auto taken = take(tid);
  // Into a system call, or out of it: the stop for the interrupt comes behind that.
  while (taken && taken->is_of_call()) {
    (void)thread.cont_if_alive();
    taken = take(tid);
  }
  if (!taken) return is_gone(taken.error()) && ends();
  if (has_cut_call(tid)) {
    resume_from(thread, taken->stop);
    return false;
  }
  (void)thread.detach_if_alive(taken->signal());
  return true;
}

// What its caller knows of a program that has executed another one meanwhile is out of date.
Pause::Pause(Program& program, Whom whom, uint64_t number) : program_(program) {
  const unsigned generation = program.generation_;
  if (whom == Whom::one) {
    stop_one();
  } else if (whom == Whom::one_running) {
    stop_one_running(number);
  } else {
    stop_all(whom == Whom::running ? kRunning : kAny);
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
  for (bool others = true; others && !unusable_; others = program_.threads_.size() > 1) {
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
    // Only now: each must get a processor before it stops.
    for (Tid tid : interrupted) {
      take_stop(tid);
      stopped.insert(tid);
    }
    if (first && stopped.size() == 1) went_on_s_ += first->seconds();
    first.reset();
  }
}

void Pause::take_stop(Tid tid) {
  const ptrace::Moment give_up_at =
      stands_since_ ? *stands_since_ + kMostStanding : ptrace::Moment::max();
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

bool Pause::is_overdue() const {
  return stands_since_ && std::chrono::steady_clock::now() - *stands_since_ > kMostStanding;
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
  const kernel::ScheduleTimes before = times_of(thread.tracee.tid());
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
  const kernel::ScheduleTimes after = times_of(thread.tracee.tid());
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
    used_before.push_back(times_of(it->tracee.tid()).used);
    resume(*it);
  }
  // It sleeps, or what it waited for has come, and it computes.
  const auto has_gone_on = [&](Tid tid, uint64_t used) {
    return !is_in_state(program_.pid(), tid, kRunning) || times_of(tid).used != used;
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
