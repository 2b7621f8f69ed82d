// SPDX-License-Identifier: MIT
#include "inject/bursts.h"

#include <sched.h>
#include <sys/auxv.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <fstream>

#include "inject/guest_registers.h"
#include "inject/guest_signals.h"
#include "inject/sequence_watch.h"
#include "inject/thread_state.h"
#include "kernel/proc.h"

namespace shadowprof::inject {

using emu::CachePosition;
using ptrace::StopEvent;
using ptrace::WaitStatus;

namespace {

constexpr unsigned long kHwcapFsgsbase = 1u << 1;  // of AT_HWCAP2 (arch/x86 asm/hwcap2.h)

// Return addresses go through a stack that our calls do not write.
bool has_shadow_stack(Tid process) {
  std::ifstream file(fmt::format("/proc/{}/status", process.value));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("x86_Thread_features:")) return line.find("shstk") != line.npos;
  }
  return false;
}

}  // namespace

GuestProcess* Bursts::visited() const {
  return guests_.processes.empty() ? nullptr : guests_.processes.begin()->second.get();
}

bool Bursts::has_room_for(size_t threads) const {
  const GuestProcess* process = visited();
  return process && process->space->slots().size() >= threads;
}

Status Bursts::check_host(bool counting) {
  if (counting || (::getauxval(AT_HWCAP2) & kHwcapFsgsbase) != 0) return {};
  return fail("this host has no user instructions for the gs base (FSGSBASE)");
}

Status Bursts::open(ptrace::Tracee thread, Tid process, size_t threads,
                    std::vector<siginfo_t>& deferred) {
  if (is_open()) return make_room(*visited(), thread, threads, deferred);
  SP_TRY(check_host(engine_.records().counting()));
  if (has_shadow_stack(process)) return fail("the program has a shadow stack");
  auto fresh = std::make_unique<GuestProcess>(process);
  fresh->is_root = true;
  fresh->native = true;
  SP_ASSIGN(fresh->space, engine_.spaces().make(thread, *fresh, options_.native_trace, deferred));
  SP_TRY(make_room(*fresh, thread, threads, deferred));
  guests_.processes[process] = std::move(fresh);
  engine_.records().counts.processes = 1;
  prefill_.restart();
  return {};
}

Status Bursts::make_room(GuestProcess& process, ptrace::Tracee thread, size_t threads,
                         std::vector<siginfo_t>& deferred) {
  cache::AddressSpace& space = *process.space;
  if (space.slots().size() >= threads) return {};
  ptrace::RemoteSyscalls remote(thread, space.syscall_insn(), options_.native_trace);
  remote.keep_signals_in(deferred);
  SP_TRY(space.make_room(remote, threads));
  SP_ASSIGN([[maybe_unused]] const WaitStatus stop, remote.finish());
  return {};
}

void Bursts::begin_burst(Tid running) {
  GuestProcess& process = *visited();
  process.native = false;
  process.space->look_for_changes(running);
  process.actions = {};
  process.actions_known = false;
  const auto status = kernel::read_status(process.pid);
  ignored_ = status ? status->ignored : 0;
}

Status Bursts::admit(ptrace::Tracee thread, Registers regs, std::vector<siginfo_t>& deferred) {
  GuestProcess& process = *visited();
  if (process.native)
    return fail_errno(EAGAIN, "the burst is over");  // another thread has ended it
  if (owns(thread.tid())) return fail_errno(EAGAIN, "thread {} is dying", thread.tid().value);
  WaitStatus now;
  if (!thread.current_stop_if_alive(now) || now.is_event(StopEvent::exec))
    return ptrace::thread_is_gone(thread.tid());  // another one may have its number
  if (!process.space->has_free_slot())
    return fail_errno(EAGAIN, "there are more threads than slots");
  // It could not be put back: the kernel takes such a base from the program alone.
  if (engine_.records().tracing() && regs.gs_base >= machine::kFirstRefusedBase)
    return fail("the program's gs base is beyond its half of the address space");
  GuestAddr rseq;
  if (thread.get_rseq_if_alive(rseq) && rseq != GuestAddr()) {
    const auto sequence = announced_sequence(process.space->code().memory(), rseq);
    if (sequence && sequence->code.contains(regs.pc()))
      return fail_errno(EAGAIN, "it is in a restartable sequence");
  }
  ptrace::SignalMask pending = 0;
  if (!thread.get_pending_signals_if_alive(pending)) return ptrace::thread_is_gone(thread.tid());
  if (pending & ptrace::kInstructionSignals) return fail_errno(EAGAIN, "it has just faulted");
  if (has_trap_flag(regs)) return fail_errno(EAGAIN, "it has set its trap flag");
  const Tid tid = thread.tid();
  GuestThread& t = engine_.spaces().add_thread(tid, process);
  t.guest_gs_base = regs.gs_base;
  Status ready = {};
  if ((t.blocked & kOwnSignalMask) || (ignored_ & kOwnSignalMask)) ready = look_at_actions(t);
  if (ready) ready = set_rseq(t, rseq);
  if (ready) ready = engine_.spaces().give_slot(t);
  if (!ready) {
    (void)set_rseq(t, GuestAddr());
    deferred = std::move(t.deferred);
    guests_.threads.erase(tid);
    (void)thread.set_options_if_alive(options_.native_trace);
    return ready;
  }
  (void)thread.set_options_if_alive(options_.trace);
  engine_.enter(t, regs);
  return {};
}

bool Bursts::burst_is_over() const {
  const GuestProcess* process = visited();
  if (!process || process->native) return true;
  return std::none_of(guests_.threads.begin(), guests_.threads.end(), [](const auto& entry) {
    return entry.second->slot && !entry.second->leaves;
  });
}

void Bursts::wake_sleepers() {
  for (const auto& [tid, t] : guests_.threads) (void)t->tracee.interrupt_if_alive();
}

bool Bursts::serve(Tid tid, const WaitStatus& status) {
  GuestThread& t = *guests_.threads.at(tid);
  if (!t.leaves || status.is_dead() || status.is_event(StopEvent::exit)) {
    engine_.dispatch(tid, status);
    return true;
  }
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return true;
  const ptrace::Tracee thread = t.tracee;
  // Asleep at the burst's end, it is native now, and its pointer was watched still.
  siginfo_t info;
  const bool was_watched = status.is_signal_stop(SIGTRAP) && thread.get_siginfo_if_alive(info) &&
                           met_breakpoint(t, info, regs);
  if (was_watched) repair_signal_state(t, SIGTRAP);
  take_back(t, regs);
  if (was_watched) (void)thread.cont_if_alive();
  return was_watched;
}

void Bursts::regain(Tid tid, Registers& regs) {
  const auto it = guests_.threads.find(tid);
  if (it != guests_.threads.end() && it->second->leaves) take_back(*it->second, regs);
}

// From asleep or out to native, at whatever it has stopped for. In the gateway it stands at its
// system call, or somewhere behind it on the way out.
void Bursts::take_back(GuestThread& t, Registers& regs) {
  const emu::CodeCache& cache = t.process->space->cache();
  const bool was_asleep = t.in_engine;
  if (was_asleep && cache.contains(regs.rip)) {
    CachePosition at = cache.locate(regs.rip);
    if (at.kind != CachePosition::Kind::before_syscall)
      at.kind = CachePosition::Kind::after_syscall;
    engine_.take_guest_state(t, regs, at);
    (void)t.tracee.set_registers_if_alive(regs);
  }
  t.in_engine = false;
  (void)set_rseq(t, GuestAddr());
  if (was_asleep && engine_.records().tracing()) t.cursor = t.slot->state().cursor;
  (void)t.tracee.set_options_if_alive(options_.native_trace);
  const Tid tid = t.tracee.tid();
  engine_.spaces().release(t, trace::EndReason::left_engine);
  guests_.threads.erase(tid);
}

// First the slots say that threads leave, then it is looked who sleeps: who wakes up since leaves
// by itself.
void Bursts::end_burst() {
  GuestProcess* process = visited();
  if (!process) return;
  process->native = true;
  std::vector<GuestThread*> inside, awaited;
  for (auto& [tid, t] : guests_.threads) {
    if (t->slot && !t->leaves) inside.push_back(t.get());
  }
  for (GuestThread* t : inside) std::atomic_ref(t->slot->state().leaves).store(1);
  for (GuestThread* t : inside) {
    Registers regs;
    if (!t->in_engine) {
      if (t->tracee.get_registers_if_alive(regs)) engine_.let_out(*t, regs);
    } else if (whereabouts(*t) == Whereabouts::asleep_in_gateway) {
      t->leaves = true;
    } else if (t->tracee.interrupt_if_alive()) {
      awaited.push_back(t);
    }
  }
  await_leavers(std::move(awaited));
}

// Each goes on as soon as it has stopped. One that has gone to sleep uninterruptibly since it was
// interrupted, to wait for a disk perhaps, is not waited for: it stops when it wakes up.
void Bursts::await_leavers(std::vector<GuestThread*> awaited) {
  constexpr unsigned kEager = 200;  // looks without sleeping, about the time that a stop takes
  constexpr unsigned kLooksPerCheck = 20;
  for (unsigned looks = 0; !awaited.empty(); looks++) {
    std::erase_if(awaited, [&](GuestThread* t) {
      Registers regs;
      if (engine_.stops().has(t->tracee.tid())) {
        const bool is_out = engine_.await_guest(*t) && t->tracee.get_registers_if_alive(regs);
        t->leaves = true;
        if (is_out) engine_.let_go(*t, regs, 0);
        t->is_dying = !is_out;
        return true;
      }
      if (looks < kEager || looks % kLooksPerCheck != 0) return false;
      const auto status = kernel::read_status(t->tracee.tid());
      // Another thread, which nobody traces, has executed a program and has its number now.
      const bool is_other = status && status->tracer == Tid();
      const Whereabouts where = is_other ? Whereabouts::gone : whereabouts(*t);
      t->leaves = where != Whereabouts::running;
      t->is_dying = where == Whereabouts::gone;
      return t->leaves;
    });
    if (looks < kEager) {
      ::sched_yield();
    } else if (!awaited.empty()) {
      constexpr timespec kPause{0, 50'000};
      ::nanosleep(&kPause, nullptr);
    }
  }
}

// Who was killed meanwhile has its cursor in its last registers: its exit event ends its trace.
void Bursts::conclude_burst() {
  std::vector<Tid> out;
  for (auto& [tid, t] : guests_.threads) {
    if (!t->leaves || !t->slot) continue;
    if (!t->in_engine) {
      engine_.spaces().release(*t, trace::EndReason::left_engine);
      out.push_back(tid);
    } else if (!t->concluded && !t->is_dying) {
      t->cursor = t->slot->state().cursor;
      t->in_engine = false;  // so its records are not lost
      engine_.records().conclude(*t, trace::EndReason::left_engine);
      t->in_engine = true;
    }
  }
  for (Tid tid : out) guests_.threads.erase(tid);
}

size_t Bursts::translate_ahead(std::span<const GuestAddr> pcs, size_t limit) {
  GuestProcess& process = *visited();
  GuestThread nobody(process.pid, process, options_.trace);
  emu::FragmentFinder finds = engine_.finder(nobody);
  return prefill_.translate(process.space->cache(), finds, pcs, limit);
}

uint64_t Bursts::count_instructions() {
  if (GuestProcess* process = visited())
    engine_.records().executions.take(*process->space, guests_);
  return engine_.records().executions.instructions();
}

void Bursts::forget_program() {
  for (auto& [tid, t] : guests_.threads) engine_.spaces().release(*t, trace::EndReason::executed);
  guests_.threads.clear();
  if (GuestProcess* process = visited()) engine_.spaces().leave(*process);
  guests_.processes.clear();
}

Status Bursts::close(ptrace::Tracee thread, std::vector<siginfo_t>& deferred) {
  GuestProcess& process = *visited();
  if (!guests_.threads.empty()) return fail("threads of the program are in the code cache");
  ptrace::RemoteSyscalls remote(thread, process.space->syscall_insn(), options_.native_trace);
  remote.keep_signals_in(deferred);
  SP_TRY(process.space->unmap(remote));
  SP_ASSIGN([[maybe_unused]] const WaitStatus stop, remote.finish());
  forget_program();
  return {};
}

}  // namespace shadowprof::inject
