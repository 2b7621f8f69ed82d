// SPDX-License-Identifier: MIT
#include "shadow/program.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "ptrace/default_action.h"
#include "ptrace/interruption.h"
#include "ptrace/remote_memory.h"
#include "ptrace/signal_cause.h"
#include "shadow/thread_looks.h"

namespace shadowprof::shadow {

using ptrace::StopEvent;
using ptrace::WaitStatus;

namespace {

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
  look.before = kernel::schedule_times_of(tid);
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
    return known.cut.look(thread, status, signalled && has_handler(thread.tid(), status.signal()),
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

}  // namespace shadowprof::shadow
