// SPDX-License-Identifier: MIT
//
// Threads and processes that begin, change their program, and end; and the way out of the engine.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/processor_time.h"
#include "inject/engine.h"
#include "inject/guest_signals.h"
#include "inject/mend_pointer.h"
#include "inject/sequence_watch.h"
#include "inject/signal_storm.h"
#include "inject/thread_state.h"
#include "kernel/proc.h"
#include "ptrace/deliver.h"
#include "ptrace/hardware_breakpoint.h"

namespace shadowprof::inject {

using ptrace::StopEvent;

namespace {

bool is_ours(Tid tid) {
  const auto status = kernel::read_status(tid);
  return status && status->tracer.value == ::gettid();
}

}  // namespace

Status Engine::adopt(ptrace::Tracee thread) {
  if (windows_) SP_TRY(windows_->prepare());
  if (time_) SP_TRY(time_->turns().prepare());
  auto process = std::make_unique<GuestProcess>(thread.tid());
  process->is_root = true;
  begin_actions(*process);
  process->machine_share.may_hold_random =
      machine_ && VirtualMachine::holds_random_device(thread.tid());
  root_ = thread.tid();
  std::vector<siginfo_t> deferred;
  SP_ASSIGN(process->space, spaces_.make(thread, *process, options_.trace, deferred));
  GuestProcess& owner = *(guests_.processes[thread.tid()] = std::move(process));
  records_.counts.processes++;
  GuestThread& t = spaces_.add_thread(thread.tid(), owner);
  t.deferred = std::move(deferred);
  SP_TRY(spaces_.give_slot(t));
  Registers regs;
  if (!thread.get_registers_if_alive(regs)) return ptrace::thread_is_gone(thread.tid());
  enter(t, regs);
  return {};
}

// What we have in the process's memory goes elsewhere, as the program wants the place. `t` is in
// guest context with these registers, and stays. All threads' traces end, and new ones begin.
// False: they cannot all be stopped now, or there is no other place; then the caller lets the
// process go.
bool Engine::move_space(GuestThread& t, const Registers& regs, GuestRange avoided) {
  GuestProcess& process = *t.process;
  if (options_.bursts != nullptr || process.space.use_count() != 1 || t.holding) return false;
  if (!counting()) return false;  // what a trace says of the way from here to there would be lost
  std::vector<GuestThread*> others;
  for (auto& [tid, other] : guests_.threads) {
    if (other->process != &process || other.get() == &t) continue;
    if (!other->in_engine || other->trapped || other->holding || other->leaves) return false;
    others.push_back(other.get());
  }
  if (!t.tracee.set_registers_if_alive(regs)) return false;
  for (GuestThread* other : others) {
    if (!quiesce(*other) || !other->slot) return false;
  }
  if (!spaces_.replace(t, avoided)) return false;
  for (GuestThread* other : others) {
    other->concluded = false;
    Registers theirs;
    if (!spaces_.give_slot(*other) || !other->tracee.get_registers_if_alive(theirs)) return false;
    enter(*other, theirs);
    if (process.native) return false;
  }
  return true;
}

// What `t` has just made, at the call that its registers tell.
NewChild Engine::child_of(GuestThread& t, const Registers& regs) {
  uint64_t clone_flags = 0;
  if (regs.orig_rax == SYS_vfork) clone_flags = CLONE_VM | CLONE_VFORK;
  if (regs.orig_rax == SYS_clone) clone_flags = regs.rdi;
  if (regs.orig_rax == SYS_clone3) {
    const auto flags = t.process->space->code().memory().read_value<uint64_t>(GuestAddr(regs.rdi));
    if (flags) clone_flags = *flags;
  }
  refresh_mask(t);
  NewChild info;
  info.parent = t.process;
  info.shares_memory = (clone_flags & CLONE_VM) != 0;
  info.is_thread = (clone_flags & CLONE_THREAD) != 0;
  info.next_pc = t.slot->state().next_pc;
  info.guest_r15 = t.slot->state().guest_r15;
  info.guest_gs_base = tracing() ? t.guest_gs_base : regs.gs_base;
  info.blocked = t.blocked;
  if (!info.shares_memory) info.rseq = t.rseq;
  // Here, since children begin in any order.
  if (machine_ && !info.is_thread) info.machine_share = t.process->machine_share.for_child();
  return info;
}

// Fork, vfork or clone has made a child; its own first stop comes before or after this one.
void Engine::on_new_child(GuestThread& t, StopEvent event) {
  uint64_t message = 0;
  Registers regs;
  if (!t.tracee.get_event_message_if_alive(message) || !t.tracee.get_registers_if_alive(regs))
    return;
  const NewChild info = child_of(t, regs);
  const Tid child(static_cast<int32_t>(message));
  children_.announce(child, info);
  t.last_child = child;
  t.in_vfork = event == StopEvent::vfork;
  const bool is_ours = info.is_thread || options_.follow;
  if (time_ && is_ours) time_->turns().begin(t);
  if (takes_turns()) {
    time_->turns().shorten(t, true);
    const Tid parent = t.tracee.tid();
    start_announced(child);
    // It has left with its process, in which the child found no room.
    if (!guests_.threads.contains(parent)) return;
  }
  resume(t);
  if (t.in_vfork && is_ours) pass_turn(t);  // it sleeps
}

// Who is killed in the call that makes a child does not stop to tell of it (kernel/signal.c
// ptrace_stop); the call's answer does. Threads die with their process.
void Engine::announce_for_killed(GuestThread& t, const Registers& regs) {
  const auto answer = static_cast<int64_t>(regs.rax);
  const bool makes_child = regs.orig_rax == SYS_fork || regs.orig_rax == SYS_vfork ||
                           regs.orig_rax == SYS_clone || regs.orig_rax == SYS_clone3;
  if (!t.slot || !makes_child || answer <= 0) return;
  const auto at = t.process->space->cache().locate(regs.rip).kind;
  const bool is_behind_call = t.in_engine ? at == emu::CachePosition::Kind::after_syscall
                                          : regs.rip == t.slot->state().next_pc;
  if (!is_behind_call) return;
  const Tid child = known_to(t, static_cast<int32_t>(answer));
  if (child == t.last_child || guests_.threads.contains(child) || !is_ours(child)) return;
  if (const auto status = kernel::read_status(child);
      !status || status->innermost_pid.value != answer)
    return;
  if (const NewChild info = child_of(t, regs); !info.is_thread) children_.announce(child, info);
}

// A child that has been told of may still come when its parent, the last one, has ended.
bool Engine::is_over() const {
  return guests_.threads.empty() && root_end_ &&
         std::ranges::none_of(children_.announced(),
                              [](const auto& c) { return is_ours(c.first); });
}

// Not where their parents' events are handled: that may be in the middle of a flush.
void Engine::start_ready_children() {
  for (Tid child : children_.take_ready()) {
    if (const auto told = children_.take(child)) start_child(child, *told);
  }
}

// Now, if its parent has told of it.
void Engine::start_announced(Tid child) {
  if (!children_.is_announced(child)) return;
  if (!children_.remove_ready(child)) {
    const auto stop = stops_.wait_for_stop(child);
    if (!stop || stop->is_event(StopEvent::exit)) {
      if (stop) (void)ptrace::Tracee(child).cont_if_alive();
      return;
    }
  }
  start_child(child, *children_.take(child));
}

// The child stands in its first stop, behind the system call that made it, in the gateway.
void Engine::start_child(Tid child, const NewChild& info) {
  ptrace::Tracee tracee(child);
  Registers regs;
  if (!tracee.get_registers_if_alive(regs)) return;
  regs.rip = info.next_pc;
  regs.rcx = info.next_pc;
  regs.r15 = info.guest_r15;
  regs.gs_base = info.guest_gs_base;
  const bool shares = info.is_thread || info.shares_memory;
  const bool stays_native = shares && (info.parent->native || !info.parent->space);
  if (stays_native || (!info.is_thread && !options_.follow)) {
    if (!info.is_thread && options_.follow) {
      spaces_.note_leaving(GuestProcess(child),
                           "ran outside the engine, like the process whose memory it shares");
    }
    ptrace::leave_no_debug_registers(tracee);
    if (tracee.set_registers_if_alive(regs)) (void)tracee.detach_if_alive();
    return;
  }
  if (!tracee.set_registers_if_alive(regs)) return;

  GuestProcess* process = info.parent;
  std::vector<siginfo_t> deferred;
  if (!info.is_thread) {
    auto fresh = std::make_unique<GuestProcess>(child);
    fresh->actions = info.parent->actions;
    fresh->machine_share = info.machine_share;
    if (time_) fresh->began_ns = time_->clock().worked_ns();
    if (info.shares_memory) {
      fresh->space = info.parent->space;
    } else {
      auto space = spaces_.make(tracee, *fresh, options_.trace, deferred);
      if (!space && space.error().errno_value == ESRCH) return;
      if (!space) {
        spaces_.note_leaving(*fresh, "ran outside the engine: " + space.error().message);
        (void)tracee.detach_if_alive();
        return;
      }
      fresh->space = std::move(*space);
    }
    records_.counts.processes++;
    process = (guests_.processes[child] = std::move(fresh)).get();
  }
  GuestThread& t = spaces_.add_thread(child, *process);
  t.guest_gs_base = info.guest_gs_base;
  t.blocked = info.blocked;
  t.deferred = std::move(deferred);
  if (const Status slot = spaces_.give_slot(t); !slot) {
    if (slot.error().errno_value != ESRCH) go_native(*process, slot.error().message);
    return;
  }
  if (const Status watched = set_rseq(t, info.rseq); !watched) {
    if (watched.error().errno_value != ESRCH) go_native(*process, watched.error().message);
    return;
  }
  if (!t.tracee.get_registers_if_alive(regs)) return;
  enter(t, regs);
}

// The process has executed another program. Its other threads, and everything we had mapped, are
// gone; the thread has the process's id now.
void Engine::on_exec(Tid tid) {
  ptrace::Tracee tracee(tid);
  uint64_t former = 0;
  if (!tracee.get_event_message_if_alive(former)) return;
  GuestProcess* process = nullptr;
  if (const auto it = guests_.threads.find(Tid(static_cast<int32_t>(former)));
      it != guests_.threads.end()) {
    process = it->second->process;
    spaces_.release(*it->second, trace::EndReason::executed);
    if (time_) time_->turns().note_execution(Tid(static_cast<int32_t>(former)), tid);
  }
  if (!process) {
    (void)tracee.cont_if_alive();
    return;
  }
  if (time_) time_->timers().executed(process->pid);
  if (counting() && process->space) records_.executions.take(*process->space, guests_);
  std::erase_if(guests_.threads,
                [&](const auto& entry) { return entry.second->process == process; });
  spaces_.leave(*process);
  process->native = false;
  begin_actions(*process);
  if (tid == root_) records_.notes.add_executed(tid);
  if (!options_.follow_exec) {
    spaces_.note_leaving(*process,
                         "executed another program, which ran outside the engine (--no-exec)");
    (void)tracee.detach_if_alive();
    return;
  }
  std::vector<siginfo_t> deferred;
  auto space = spaces_.enter(tracee, *process, deferred);
  Registers regs;
  if (!space || !tracee.get_registers_if_alive(regs)) {
    if (!space && space.error().errno_value != ESRCH) {
      spaces_.note_leaving(*process, "executed another program, which ran outside the engine: " +
                                         space.error().message);
    }
    (void)tracee.detach_if_alive();
    return;
  }
  process->space = std::move(*space);
  GuestThread& t = spaces_.add_thread(tid, *process);
  t.deferred = std::move(deferred);
  if (const Status slot = spaces_.give_slot(t); !slot) {
    if (slot.error().errno_value != ESRCH) go_native(*process, slot.error().message);
    return;
  }
  if (tracee.get_registers_if_alive(regs)) enter(t, regs);
}

// The thread is dying; its registers are the last ones it had.
void Engine::on_exit_event(GuestThread& t) {
  Registers regs{};
  const bool has_registers = t.tracee.get_registers_if_alive(regs);
  if (has_registers) announce_for_killed(t, regs);
  if (t.in_engine && !t.concluded && has_registers) {
    const emu::CodeCache& cache = t.process->space->cache();
    const emu::CachePosition at = cache.locate(regs.rip);
    // Killed between a drain and the setting of its registers, it still has the cursor of before.
    const uint64_t start = t.slot->buffer_guest(t.buffer);
    if (tracing() && (regs.r15 < start || regs.r15 > t.slot->buffer_end(t.buffer)))
      regs.r15 = start;
    if (at.kind == emu::CachePosition::Kind::point) {
      take_guest_state(t, regs, at);
    } else if (at.kind != emu::CachePosition::Kind::outside) {
      if (tracing()) t.cursor = regs.r15;
      t.in_engine = false;
    }
  }
  spaces_.release(t, trace::EndReason::exited);
  spaces_.look_through_another(t);
  t.ending = true;
  t.in_call = false;
  if (time_) time_->turns().note_exit(t);
  const bool executes = guests_.is_executing(*t.process);
  t.process->is_ending = !executes && regs.orig_rax != SYS_exit;
  const double used_s = processor_seconds_of(t.process->pid).value_or(t.process->cpu_s);
  records_.counts.program_cpu_s += used_s - t.process->cpu_s;
  t.process->cpu_s = used_s;
  resume(t);
}

void Engine::on_death(Tid tid, const ptrace::WaitStatus& status) {
  if (tid == root_) {
    root_end_ = status.kind() == ptrace::WaitStatus::Kind::killed
                    ? ProgramEnd{true, status.signal()}
                    : ProgramEnd{false, status.exit_code()};
  }
  children_.forget(tid);
  if (time_) time_->turns().note_death(tid);
  spaces_.forget_thread(tid);
}

// `regs` are the guest's, and not yet set in the thread.
void Engine::note_unsupported(GuestThread& t, const Registers& regs, const char* reason) {
  if (!t.tracee.set_registers_if_alive(regs)) return;
  const GuestAddr pc(regs.rip);
  emu::CodeRegion where;
  if (t.process->space) where = t.process->space->code().region(pc);
  std::string place = fmt::format("{:#x}", pc.value);
  if (where.range.size() != 0) {
    const trace::Module& module = table_.module(where.module);
    place = fmt::format("{}+{:#x}", module.path.empty() ? "generated code" : module.path,
                        (pc.value - module.file_start.value));
  }
  go_native(*t.process, fmt::format("at {}: {}", place, reason ? reason : "unknown instruction"));
}

// All threads of the process leave the engine where they are and run on natively, unprofiled.
void Engine::go_native(GuestProcess& process, const std::string& reason) {
  if (options_.bursts != nullptr) {
    records_.notes.add_unsupported(fmt::format("process {}", process.pid.value),
                                   "went on outside the engine: " + reason);
    return options_.bursts->end_burst();
  }
  process.native = true;
  std::vector<GuestThread*> all;
  for (auto& [tid, t] : guests_.threads) {
    if (t->process == &process) all.push_back(t.get());
  }
  for (GuestThread* t : all) {
    if ((t->in_engine || t->trapped) && !quiesce(*t)) {
      // It stops as soon as it comes out of the kernel, before it executes anything.
      t->leaves = true;
      (void)t->tracee.interrupt_if_alive();
      if (counting() && t->slot) (void)records_.take_log(*t);
      continue;
    }
    Registers regs;
    if (!t->tracee.get_registers_if_alive(regs)) continue;
    if (time_) time_->timers().leave(*t, regs);
    leave_natively(*t, regs, 0);
  }
  // Who is asleep counts nothing.
  if (process.space.use_count() == 1) records_.executions.take(*process.space, guests_);
  spaces_.leave_unused(process);
  spaces_.note_leaving(process, "went on outside the engine: " + reason);
}

void Engine::leave_all(const std::string& reason) {
  for (auto& [pid, process] : guests_.processes) {
    if (!process->native && process->space) go_native(*process, reason);
  }
}

// A thread that could not be stopped when its process left the engine has stopped now.
void Engine::leave_at_stop(GuestThread& t, const ptrace::WaitStatus& stop) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs) || !settle(t, stop, regs)) return;
  GuestProcess& process = *t.process;
  leave_natively(t, regs, 0);
  spaces_.leave_unused(process);
}

void Engine::leave_natively(GuestThread& t, Registers& regs, int signal) {
  const Tid tid = t.tracee.tid();
  let_go(t, regs, signal);
  spaces_.release(t, trace::EndReason::left_engine);
  guests_.threads.erase(tid);
}

void Engine::let_out(GuestThread& t, const Registers& regs) {
  t.leaves = true;
  let_go(t, regs, 0);
}

void Engine::let_go(GuestThread& t, const Registers& regs, int signal) {
  if (t.holding) end_hold(t);
  (void)set_rseq(t, GuestAddr());
  ptrace::leave_no_debug_registers(t.tracee);
  std::vector<siginfo_t> deferred = std::exchange(t.deferred, {});
  if (t.process->space) mend_unit(t.process->space->cache(), t.tracee);
  if (!t.tracee.set_registers_if_alive(regs)) return;
  if (!deferred.empty()) {
    const auto last = ptrace::give_back(t.tracee, signal, std::move(deferred));
    if (!last) return;  // it dies
    signal = *last;
  }
  if (options_.bursts == nullptr) {
    if (t.tracee.detach_if_alive(signal) && t.in_group_stop) await_group_stop(t);
    return;
  }
  (void)t.tracee.set_options_if_alive(options_.native_trace);
  // A group stop that was run through is reported again this way.
  if (t.in_group_stop) (void)t.tracee.interrupt_if_alive();
  (void)t.tracee.cont_if_alive(signal);
}

}  // namespace shadowprof::inject
