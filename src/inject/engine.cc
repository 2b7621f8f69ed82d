// SPDX-License-Identifier: MIT
#include "inject/engine.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/log.h"
#include "emu/guest_blocks.h"
#include "inject/call_kinds.h"
#include "inject/guest_registers.h"
#include "inject/guest_signals.h"
#include "inject/guest_stop.h"
#include "inject/mend_pointer.h"
#include "inject/sequence_watch.h"
#include "ptrace/interruption.h"

namespace shadowprof::inject {

using emu::CachePosition;
using ptrace::StopEvent;
using ptrace::WaitOutcome;
using ptrace::WaitStatus;

namespace {

std::unique_ptr<FixedMachine> machine_for(const EngineOptions& options, const Guests& guests,
                                          StopQueue& stops) {
  if (!options.fixed_machine) return nullptr;
  std::unique_ptr<ProgramTime> time;
  if (options.virtual_time)
    time = std::make_unique<ProgramTime>(guests, stops, options.schedule_seed, options.follow);
  return std::make_unique<FixedMachine>(guests, *options.processor, std::move(time));
}

// Is there something else now where the one instruction of the fragment was?
bool has_changed(const emu::Fragment& fragment, trace::BlockTable& table, cache::GuestCode& code) {
  if (!fragment.checks_itself) return false;
  const trace::Block& block = table.block(table.run(fragment.longest_run).first_block);
  const decoder::Insn now =
      emu::GuestBlocks(code, table).read_insn(block.start, code.region(block.start));
  return !std::ranges::equal(std::span(now.bytes).first(now.length), table.code(block));
}

// Nothing is known of its bytes.
bool is_unread(const emu::Fragment& fragment, const trace::BlockTable& table) {
  return table.code(table.block(table.run(fragment.longest_run).first_block)).empty();
}

// A program that has cleared its dumpable attribute (prctl(2), PR_SET_DUMPABLE) can be read by
// nobody without privileges, its tracer neither. What is ours in it is always there.
bool can_be_read(const GuestThread& t) {
  std::array<uint8_t, 1> byte;
  ptrace::RemoteMemory& memory = t.process->space->code().memory();
  return memory.read_some(GuestAddr(t.slot->guest), byte) != 0;
}

}  // namespace

Engine::Engine(trace::BlockTable& table, trace::TraceSink& sink, EngineOptions options)
    : table_(table),
      options_(options),
      machine_(machine_for(options_, guests_, stops_)),
      time_(machine_ ? machine_->time() : nullptr),
      records_(table, sink, options_.space.recording, time_ != nullptr ? &time_->clock() : nullptr),
      spaces_(table, options_, guests_, records_, machine_.get()),
      branches_(table, options_, records_) {
  if (options_.seen_enough != nullptr)
    windows_.emplace(*options_.seen_enough, sink, guests_, options_.capture_one_in,
                     options_.capture_window_us);
  options_.space.call_kinds = call_kind;
}

Engine::~Engine() = default;

Result<ProgramEnd> Engine::run(const std::function<void()>& on_interrupt) {
  while (!is_over()) {
    start_ready_children();
    const WaitOutcome outcome = next_report();
    if (windows_) windows_->look();
    if (outcome.kind == WaitOutcome::Kind::no_children) break;
    if (outcome.has_status()) dispatch(outcome.tid, outcome.status);
    on_interrupt();
  }
  if (!root_end_) return fail("the program's end was not seen");
  return *root_end_;
}

// The next report to handle.
WaitOutcome Engine::next_report() {
  while (takes_turns()) {
    const TurnKeeper::Next next = time_->turns().next();
    if (next.goes_on == nullptr) return next.report;
    resume(*next.goes_on);
  }
  return stops_.next(guests_.threads.size() == 1);
}

void Engine::dispatch(Tid tid, const WaitStatus& status) {
  if (status.is_dead()) return on_death(tid, status);
  if (status.is_event(StopEvent::exec)) return on_exec(tid);
  const auto it = guests_.threads.find(tid);
  if (it == guests_.threads.end()) {
    // A thread that died before it was started.
    if (status.is_event(StopEvent::exit)) {
      children_.forget(tid);
      (void)ptrace::Tracee(tid).cont_if_alive();
      return;
    }
    // A new child; its parent's event tells what it is, now or soon.
    if (const auto told = children_.come(tid)) start_child(tid, *told);
    return;
  }
  GuestThread& t = *it->second;
  t.executing = false;
  t.in_vfork = false;
  if (std::exchange(t.expires, false) && status.is_event(StopEvent::stop)) return on_wait_over(t);
  if (t.cut.is_active() && is_in_cut_call(t, status)) return resume(t);
  if (t.under_way && !status.is_event(StopEvent::exit)) {
    const bool left = end_sequence(t, status);
    if (left || status.kind() != WaitStatus::Kind::signal_stop)
      return go_on_behind_sequence(t, status);
  }
  if (t.leaves && !status.is_event(StopEvent::exit)) return leave_at_stop(t, status);
  switch (status.kind()) {
    case WaitStatus::Kind::signal_stop: return on_signal_stop(t);
    case WaitStatus::Kind::group_stop:
      (void)t.tracee.listen_if_alive();
      return pass_turn(t);
    case WaitStatus::Kind::event: break;
    default: return resume(t);
  }
  switch (status.event()) {
    case StopEvent::fork:
    case StopEvent::vfork:
    case StopEvent::clone: return on_new_child(t, status.event());
    case StopEvent::exit: return on_exit_event(t);
    default: return t.holding ? on_moment_over(t) : go_on_behind_interrupt(t);
  }
}

// Where threads take turns, the interrupt may have been ours.
void Engine::go_on_behind_interrupt(GuestThread& t) {
  Registers regs;
  if (takes_turns() && t.tracee.get_registers_if_alive(regs) &&
      ptrace::conceal_interruption(t.tracee, regs) && !t.tracee.set_registers_if_alive(regs))
    return;
  resume(t);
}

void Engine::resume(GuestThread& t, int signal) {
  if (takes_turns()) {
    TurnKeeper& turns = time_->turns();
    if (turns.parks(t)) return;
    if (signal == 0 && turns.needs_checks(t) && add_turn_checks(t)) return;
  }
  (void)(t.cut.is_active() ? t.tracee.syscall_if_alive(signal) : t.tracee.cont_if_alive(signal));
}

// All code is translated anew. True: the thread has been set going, or is gone.
bool Engine::add_turn_checks(GuestThread& t) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return false;
  cache::AddressSpace& space = *t.process->space;
  // It would make its call twice.
  if (space.cache().locate(regs.rip).kind == emu::CachePosition::Kind::before_syscall) return false;
  if (!to_guest(t, regs) || !t.tracee.set_registers_if_alive(regs)) return true;
  space.translator().count_turns();
  flush(t);
  enter(t, regs);
  return true;
}

void Engine::on_turn_over(GuestThread& t) {
  records_.counts.turns++;
  time_->turns().turn_over(t);
  go_on(t);
}

void Engine::pass_turn(GuestThread& t) {
  if (time_) time_->turns().pass(t);
}

// Its own interrupt's stop, in a call that is to say that its time is over.
void Engine::on_wait_over(GuestThread& t) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return;
  const emu::CachePosition at = t.process->space->cache().locate(regs.rip);
  if (!t.wait || !regs.call_is_cut_short() || at.kind != emu::CachePosition::Kind::after_syscall)
    return resume(t);
  regs.rax = static_cast<uint64_t>(t.wait->result_when_over());
  regs.orig_rax = machine::kNoSyscall;
  take_guest_state(t, regs, at);
  enter(t, regs);
}

// What was taken from the thread at this stop, or before it, is given back first.
void Engine::go_on(GuestThread& t) {
  t.deferred.empty() ? resume(t) : redeliver_deferred(t);
}

void Engine::on_signal_stop(GuestThread& t) {
  using Kind = cache::Stop::Kind;
  t.trapped = false;
  Registers regs;
  siginfo_t info;
  if (!t.tracee.get_registers_if_alive(regs) || !t.tracee.get_siginfo_if_alive(info)) return;
  const cache::Stop stop = reveal_stop(t, regs, info);
  if (stop.is_trap()) repair_signal_state(t, SIGTRAP);
  switch (stop.kind) {
    case Kind::miss: return on_miss(t, regs, stop);
    case Kind::branch_miss: return on_indirect_miss(t, regs, stop);
    case Kind::log_full:
      take_guest_state(t, regs, stop.at);
      return enter(t, regs);
    case Kind::turn_over: return on_turn_over(t);
    case Kind::stale: return on_stale(t, regs, stop.at);
    case Kind::unreadable_mask:
      repair_signal_state(t, info.si_signo);
      [[fallthrough]];
    case Kind::system_call: return on_tracer_syscall(t, regs);
    case Kind::call_over:
      take_guest_state(t, regs, stop.at);
      return enter(t, regs);
    case Kind::stored_pointer: return on_stored_pointer(t, regs, stop.at);
    case Kind::sets_trap_flag:
    case Kind::native_insn:
    case Kind::unsupported: return on_special_insn(t, regs, stop);
    case Kind::full_buffer:
      records_.counts.drains++;
      repair_signal_state(t, SIGSEGV);
      drain_in_engine(t, regs);
      if (t.tracee.set_registers_if_alive(regs)) go_on(t);
      return;
    case Kind::unaligned: return on_alignment_fault(t, regs);
    case Kind::watchpoint:
      if (met_breakpoint(t, info, regs) && t.in_engine) return on_announced_sequence(t, regs);
      break;
    case Kind::fault:
      if (ptrace::cause_of(info, regs) != ptrace::SignalCause::sent) break;
      if (to_guest(t, regs) && t.tracee.set_registers_if_alive(regs)) resume(t, info.si_signo);
      return;
    case Kind::unreadable_code:
    case Kind::read_ahead:
    case Kind::step:
    case Kind::sent: break;
  }
  deliver(t, regs, info);
}

// Whether it was one or the program's own access, its instruction will tell. A system call is made
// by the gateway, like others.
void Engine::on_alignment_fault(GuestThread& t, Registers& regs) {
  repair_signal_state(t, SIGBUS);
  if (!to_guest(t, regs)) return;
  if (!look_at_insn(t.process->space->code().memory(), regs).is_syscall)
    return native_step(t, regs, nullptr);
  records_.traces.gap(t, trace::GapReason::native);
  regs.rcx = regs.rip + machine::kSyscallInsnBytes;
  regs.rip = t.process->space->cache().gateway_address();
  regs.orig_rax = machine::kNoSyscall;
  go_in(t, regs);
}

// What is executed by a hardware step, or not at all.
void Engine::on_special_insn(GuestThread& t, Registers& regs, const cache::Stop& stop) {
  using Kind = cache::Stop::Kind;
  const emu::Fragment fragment = t.process->space->cache().fragment(stop.at.fragment);
  const bool is_alone = stop.kind != Kind::sets_trap_flag;
  if (is_alone && has_changed(fragment, table_, t.process->space->code()))
    return on_stale(t, regs, stop.at);
  take_guest_state(t, regs, stop.at);
  if (stop.kind == Kind::unsupported) {
    note_unsupported(t, regs, fragment.unsupported_reason);
  } else if (is_alone && is_unread(fragment, table_) && !can_be_read(t)) {
    note_unsupported(t, regs, "its memory cannot be read any more");
  } else {
    native_step(t, regs, stop.kind == Kind::sets_trap_flag ? nullptr : &fragment);
  }
}

// The thread goes on behind the int3.
void Engine::on_stored_pointer(GuestThread& t, const Registers& regs, const CachePosition& at) {
  cache::AddressSpace& space = *t.process->space;
  (void)mend_stored_pointer(space.cache(), at, guest_registers(t, regs, at), t.slot->state(),
                            space.code().memory());
  go_on(t);
}

void Engine::on_miss(GuestThread& t, Registers& regs, const cache::Stop& stop) {
  records_.counts.misses++;
  const auto id = fragment_for(t, stop.pc, std::nullopt);
  if (!id) {
    take_guest_state(t, regs, stop.at);
    return native_step(t, regs, nullptr);
  }
  regs.rip = t.process->space->cache().body_address(*id);
  if (t.tracee.set_registers_if_alive(regs)) go_on(t);
}

void Engine::on_indirect_miss(GuestThread& t, Registers& regs, const cache::Stop& stop) {
  records_.counts.indirect_misses++;
  emu::CodeCache& cache = t.process->space->cache();
  const RunId site = cache::branching_site(cache, *t.slot);
  const GuestAddr target = stop.pc;
  const auto id = fragment_for(t, target, site);
  if (!id) {
    take_guest_state(t, regs, stop.at);
    const bool has_branched = regs.rip == target.value;
    if (has_branched && counting() && site != emu::kAnySite)
      records_.executions.ran(t, site);  // no entry counts it
    return native_step(t, regs, nullptr);
  }
  branches_.met(t, site, *id, target);
  const BranchRegisters parked = branch_registers(t, regs.r15);
  regs.rcx = parked.rcx;
  regs.rdx = parked.rdx;
  regs.rip = cache.body_address(*id);
  if (t.tracee.set_registers_if_alive(regs)) go_on(t);
}

// The guest's code is no longer what was translated, or the fragment was dropped meanwhile.
void Engine::on_stale(GuestThread& t, Registers& regs, const CachePosition& at) {
  records_.counts.stale++;
  t.process->space->cache().drop(at.fragment);
  take_guest_state(t, regs, at);
  enter(t, regs);
}

emu::FragmentFinder Engine::finder(GuestThread& t) {
  return t.process->space->finder(options_.plan, records_.counts.translation,
                                  [this, &t] { flush(t); });
}

// The fragment at `pc`, translated if need be. Nothing: there is no code at `pc`.
std::optional<FragmentId> Engine::fragment_for(GuestThread& t, GuestAddr pc,
                                               std::optional<RunId> site) {
  return finder(t).find(pc, site);
}

// The cache is full: every thread leaves it, and enters it again when it is empty.
void Engine::flush(GuestThread& t) {
  records_.counts.flushes++;
  cache::AddressSpace& space = *t.process->space;
  std::vector<GuestThread*> quiesced;
  for (auto& [tid, other] : guests_.threads) {
    if (other.get() == &t || other->process->space.get() != &space || !other->in_engine) continue;
    if (other->leaves) continue;  // in the gateway, and will not come back
    if (other->in_call) continue;  // in the gateway, and stops before it leaves it
    if (quiesce(*other)) quiesced.push_back(other.get());
  }
  std::ranges::sort(quiesced, {}, &GuestThread::number);
  records_.executions.take(space, guests_);
  space.cache().flush();
  for (GuestThread* other : quiesced) {
    Registers regs;
    if (!other->tracee.get_registers_if_alive(regs)) continue;
    enter(*other, regs);
  }
}

}  // namespace shadowprof::inject
