// SPDX-License-Identifier: MIT
#include "shadow/program.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "ptrace/deliver.h"
#include "ptrace/interruption.h"

namespace shadowprof::shadow {

using ptrace::StopEvent;
using ptrace::WaitStatus;

namespace {

// At a stop that our interrupt has made.
void conceal_interruption(ptrace::Tracee thread) {
  ptrace::Registers registers;
  if (!thread.get_registers_if_alive(registers)) return;
  if (ptrace::conceal_interruption(registers)) (void)thread.set_registers_if_alive(registers);
}

}  // namespace

Program Program::launched(ptrace::Tracee process) {
  Program program(process.tid());
  program.is_child_ = true;
  program.threads_.insert(process.tid());
  (void)process.set_options_if_alive(kProgramOptions);
  return program;
}

Result<Program> Program::attach(Tid process) {
  Program program(process);
  SP_TRY(ptrace::seize(process, kProgramOptions));
  program.threads_.insert(process);
  program.adopt_new_threads();
  return program;
}

void Program::adopt_new_threads() {
  for (bool found_one = true; found_one;) {
    found_one = false;
    const auto listed = kernel::list_threads(pid_);
    if (!listed) break;
    for (Tid tid : *listed) {
      if (threads_.contains(tid)) continue;
      // One that is dying cannot be traced any more; it does not matter.
      if (!ptrace::seize(tid, kProgramOptions)) continue;
      threads_.insert(tid);
      found_one = true;
    }
  }
}

void Program::on_stop(Tid tid, const WaitStatus& status) {
  if (status.is_dead()) {
    threads_.erase(tid);
    if (tid == pid_) end_ = status;
    return;
  }
  if (status.is_event(StopEvent::exec)) return on_exec(tid);
  if (status.is_event(StopEvent::stop)) conceal_interruption(ptrace::Tracee(tid));
  resume_from(ptrace::Tracee(tid), status);
}

// The kernel has ended all other threads; what is left has the process's id.
void Program::on_exec(Tid tid) {
  threads_ = {tid};
  generation_++;
  (void)ptrace::Tracee(tid).cont_if_alive();
}

// As it would have gone on without us.
void Program::resume_from(ptrace::Tracee thread, const WaitStatus& status) {
  switch (status.kind()) {
    case WaitStatus::Kind::signal_stop:
      signals_++;
      (void)thread.cont_if_alive(status.signal());
      return;
    case WaitStatus::Kind::group_stop:
      (void)thread.listen_if_alive();
      return;
    default:
      (void)thread.cont_if_alive();
      return;
  }
}

void Program::detach() {
  for (Tid tid : threads_) {
    const ptrace::Tracee thread(tid);
    if (!thread.interrupt_if_alive()) continue;
    const auto stop = ptrace::wait_for_stop(tid, ptrace::MayBeFirst::yes);
    if (!stop) continue;
    if (stop->is_event(StopEvent::stop)) conceal_interruption(thread);
    const bool signalled = stop->kind() == WaitStatus::Kind::signal_stop;
    (void)thread.detach_if_alive(signalled ? stop->signal() : 0);
  }
  threads_.clear();
}

Pause::Pause(Program& program, Whom whom) : program_(program) {
  if (whom == Whom::running) {
    stop_running();
    return;
  }
  for (Tid tid : program.threads_) {
    stop(tid);
    if (!threads_.empty() || unusable_) return;
  }
}

void Pause::stop_running() {
  program_.adopt_new_threads();
  std::set<Tid> stopped;
  for (bool found_one = true; found_one && !unusable_;) {
    found_one = false;
    for (Tid tid : program_.threads_) {
      if (stopped.contains(tid)) continue;
      const auto stat = kernel::read_thread_stat(program_.pid_, tid);
      if (!stat || stat->state != 'R') continue;
      stop(tid);
      stopped.insert(tid);
      found_one = program_.threads_.size() > 1;
      if (unusable_) break;
    }
  }
}

void Pause::stop(Tid tid) {
  const ptrace::Tracee tracee(tid);
  if (!tracee.interrupt_if_alive()) return;
  const auto stop = ptrace::wait_for_stop(tid, ptrace::MayBeFirst::yes);
  if (!stop) {
    unusable_ = true;  // it is dying, or becomes another program
    return;
  }
  PausedThread thread{tracee, *stop, {}};
  if (!tracee.get_registers_if_alive(thread.registers)) {
    unusable_ = true;
    return;
  }
  if (stop->is_event(StopEvent::stop)) {
    if (ptrace::conceal_interruption(thread.registers)) {
      (void)tracee.set_registers_if_alive(thread.registers);
    }
  } else if (stop->kind() != WaitStatus::Kind::signal_stop) {
    unusable_ = true;
  }
  threads_.push_back(std::move(thread));
}

// The first is delivered now; those behind it, which are rare, are queued again.
void Pause::give_back_signals(PausedThread& thread) {
  const siginfo_t first = thread.deferred.front();
  thread.deferred.erase(thread.deferred.begin());
  if (thread.stop.kind() == WaitStatus::Kind::signal_stop) {
    // The one that it stopped for comes first.
    thread.deferred.insert(thread.deferred.begin(), first);
  } else if (ptrace::bring_to_signal_stop(thread.tracee, first, thread.deferred)) {
    thread.stop = WaitStatus::from_raw(first.si_signo << 8 | 0x7f);
  }
  for (siginfo_t& info : thread.deferred) {
    (void)::syscall(SYS_rt_tgsigqueueinfo, program_.pid().value, thread.tracee.tid().value,
                    info.si_signo, &info);
  }
}

Pause::~Pause() {
  for (PausedThread& thread : threads_) {
    if (!thread.deferred.empty()) give_back_signals(thread);
    program_.resume_from(thread.tracee, thread.stop);
  }
}

}  // namespace shadowprof::shadow
