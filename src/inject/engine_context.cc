// SPDX-License-Identifier: MIT
//
// From engine context to guest context and back, and the trace buffers.
#include <sys/syscall.h>

#include <cstring>
#include <fstream>

#include "base/log.h"
#include "inject/engine.h"
#include "ptrace/interruption.h"

namespace shadowprof::inject {

using emu::CachePosition;
using ptrace::WaitStatus;

namespace {

// Signals that instructions raise: they must not be blocked while we step.
constexpr ptrace::SignalMask kSynchronous =
    ptrace::mask_of(SIGTRAP) | ptrace::mask_of(SIGSEGV) | ptrace::mask_of(SIGBUS) |
    ptrace::mask_of(SIGFPE) | ptrace::mask_of(SIGILL) | ptrace::mask_of(SIGSYS);

// While it lives, the thread's mask lets through only what its own instructions raise. Signals
// that others send stay pending in the kernel, in order and complete.
class StepMask {
 public:
  explicit StepMask(ptrace::Tracee tracee) : tracee_(tracee) {
    if (!tracee_.get_signal_mask_if_alive(before_)) return;
    active_ = tracee_.set_signal_mask_if_alive(~kSynchronous);
  }
  ~StepMask() { restore(); }
  StepMask(const StepMask&) = delete;
  StepMask& operator=(const StepMask&) = delete;
  void restore() {
    if (active_) (void)tracee_.set_signal_mask_if_alive(before_);
    active_ = false;
  }

 private:
  ptrace::Tracee tracee_;
  ptrace::SignalMask before_ = 0;
  bool active_ = false;
};

unsigned long long& register_field(ptrace::Registers& regs, decoder::Gpr r) {
  switch (r) {
    case 0: return regs.rax;
    case 1: return regs.rcx;
    case 2: return regs.rdx;
    case 3: return regs.rbx;
    case 4: return regs.rsp;
    case 5: return regs.rbp;
    case 6: return regs.rsi;
    case 7: return regs.rdi;
    case 8: return regs.r8;
    case 9: return regs.r9;
    case 10: return regs.r10;
    case 11: return regs.r11;
    case 12: return regs.r12;
    case 13: return regs.r13;
    case 14: return regs.r14;
    default: return regs.r15;
  }
}

}  // namespace

// What an indirect branch has parked.
Engine::BranchRegisters Engine::branch_registers(const GuestThread& t, uint64_t cursor) const {
  const emu::StatePage& state = t.slot->state();
  if (counting()) return {state.spill_rcx, state.spill_rdx};
  const uint8_t* at = t.slot->host + (cursor - t.slot->guest);
  BranchRegisters parked;
  std::memcpy(&parked.rcx, at + emu::kCursorSpillRcx, sizeof parked.rcx);
  std::memcpy(&parked.rdx, at + emu::kCursorSpillRdx, sizeof parked.rdx);
  return parked;
}

// `at` is exact. Turns `regs` (of the engine) into the guest's, and records what part of a fragment
// has run.
void Engine::take_guest_state(GuestThread& t, Registers& regs, const CachePosition& at) {
  emu::CodeCache& cache = t.process->space->cache();
  const emu::StatePage& state = t.slot->state();
  const uint64_t regs_cursor = regs.r15;
  t.in_engine = false;
  if (!counting()) {
    t.cursor = regs.r15;
    regs.gs_base = t.guest_gs_base;
  }
  regs.r15 = state.guest_r15;
  switch (at.kind) {
    case CachePosition::Kind::point: {
      const emu::Fragment& f = cache.fragment(at.fragment);
      const emu::Point& p = at.point;
      if (p.recovery & emu::kSubstituteHoldsR15) {
        regs.r15 = register_field(regs, f.substitute);
        register_field(regs, f.substitute) = state.spill_substitute;
      }
      if (p.recovery & emu::kRcxSpilled) {
        const uint32_t record_bytes = counting() ? 0 : 4u * table_.run(f.longest_run).words;
        regs.rcx = branch_registers(t, regs_cursor + record_bytes).rcx;
      }
      if (p.recovery & emu::kAddressSpilled) register_field(regs, p.reg) = state.spill_address;
      regs.rip = f.start.value + static_cast<uint64_t>(int64_t{p.guest_delta});
      if (const auto run = t.process->space->translator().interrupted_run(f, p.insn)) {
        record_run(t, *run);
        // Its slots are in the buffer already, behind the cursor.
        if (!counting()) t.cursor += 4 * (table_.run(*run).words - 1);
      }
      break;
    }
    case CachePosition::Kind::unlinked_exit: regs.rip = cache.exit(at.exit).target.value; break;
    case CachePosition::Kind::stale: regs.rip = cache.fragment(at.fragment).start.value; break;
    case CachePosition::Kind::branch_miss:
      regs.rip = regs.rcx - static_cast<uint64_t>(int64_t{cache.site_number(branching_site(t))});
      regs.rcx = branch_registers(t, regs_cursor).rcx;
      regs.rdx = branch_registers(t, regs_cursor).rdx;
      break;
    case CachePosition::Kind::log_full:
      regs.rip = table_.block(BlockId(t.slot->pair_log()[1].block)).start.value;
      regs.rcx = branch_registers(t, regs_cursor).rcx;
      regs.rdx = branch_registers(t, regs_cursor).rdx;
      take_pair_log(t, true);
      break;
    case CachePosition::Kind::syscall_trap:
    case CachePosition::Kind::before_syscall:
      regs.rip = state.next_pc - machine::kSyscallInsnBytes;
      break;
    case CachePosition::Kind::after_syscall:
      regs.rip = state.next_pc;
      regs.rcx = state.next_pc;
      break;
    case CachePosition::Kind::outside:
    case CachePosition::Kind::between: CHECK(false, "no guest state at {:#x}", +regs.rip);
  }
}

// Steps through inserted code to the next exact place. `regs` are set in the thread. False: it died.
bool Engine::step_to_exact(GuestThread& t, Registers& regs) {
  StepMask mask(t.tracee);
  const emu::CodeCache& cache = t.process->space->cache();
  while (cache.locate(regs.rip).kind == CachePosition::Kind::between) {
    counts_.context_steps++;
    if (!t.tracee.step_if_alive()) return false;
    const auto stop = stops_.wait_for_stop(t.tracee.tid());
    if (!stop || !t.tracee.get_registers_if_alive(regs)) return false;
    if (stop->is_signal_stop(SIGTRAP) || stop->is_trap()) continue;
    siginfo_t info;
    if (stop->kind() != WaitStatus::Kind::signal_stop || !t.tracee.get_siginfo_if_alive(info)) {
      continue;
    }
    if (is_guard_hit(t, info)) {
      drain_in_engine(t, regs);
      if (!t.tracee.set_registers_if_alive(regs)) return false;
      continue;
    }
    if (ptrace::cause_of(info, regs) == ptrace::SignalCause::fault) {
      // A self-check could not read the code that it compares with.
      const CachePosition at = cache.locate(regs.rip);
      regs.rcx = t.slot->state().spill_rcx;
      regs.rdx = t.slot->state().spill_rdx;
      regs.rip = cache.base() + cache.fragment(at.fragment).body;
      return t.tracee.set_registers_if_alive(regs);
    }
    t.deferred.push_back(info);  // SIGSTOP cannot be blocked
  }
  return true;
}

// Leaves `regs` as the guest's; the caller sets them in the thread. False: it died.
bool Engine::to_guest(GuestThread& t, Registers& regs) {
  if (!t.in_engine) return true;
  const emu::CodeCache& cache = t.process->space->cache();
  if (!cache.contains(regs.rip)) {
    CHECK(false, "thread {} is at {:#x}, outside the code cache", t.tracee.tid().value, +regs.rip);
  }
  if (cache.locate(regs.rip).kind == CachePosition::Kind::between && !step_to_exact(t, regs)) {
    return false;
  }
  take_guest_state(t, regs, cache.locate(regs.rip));
  return true;
}

// From guest context (`regs`) into the cache, and on.
void Engine::enter(GuestThread& t, Registers& regs) {
  if (counting()) t.guest_gs_base = regs.gs_base;
  if (regs.gs_base != t.guest_gs_base) {
    return note_unsupported(t, regs, "it sets the gs base");
  }
  emu::CodeCache& cache = t.process->space->cache();
  emu::StatePage& state = t.slot->state();
  if (regs.restart_pending()) {
    // The kernel moves rip back to the system call instruction: to the gateway's.
    state.next_pc = regs.rip;
    regs.rip = cache.after_syscall_address();
  } else {
    const auto id = fragment_for(t, GuestAddr(regs.rip), std::nullopt);
    if (!id) return native_step(t, regs, nullptr);
    regs.rip = cache.body_address(*id);
    regs.orig_rax = machine::kNoSyscall;
  }
  state.guest_r15 = regs.r15;
  regs.r15 = counting() ? t.slot->guest : t.cursor;
  if (!counting()) regs.gs_base = t.slot->guest;
  if (!t.tracee.set_registers_if_alive(regs)) return;
  t.in_engine = true;
  if (!t.deferred.empty()) {
    if (t.holding) end_hold(t);
    return redeliver_deferred(t);
  }
  resume(t);
}

// icebp (int1) must run without the trap flag: its own trap looks like that of a step.
bool Engine::traps_like_a_step(GuestThread& t, GuestAddr pc) {
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes;
  const size_t size = t.process->space->code().memory().read_some(pc, bytes);
  for (size_t i = 0; i < size; i++) {
    const uint8_t b = bytes[i];
    if (b == 0xf1) return true;
    const bool prefix = b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x64 ||
                        b == 0x65 || b == 0x66 || b == 0x67 || b == 0xf2 || b == 0xf3 ||
                        (b & 0xf0) == 0x40;
    if (!prefix) return false;
  }
  return false;
}

// Executes the one instruction at regs.rip on the processor, at its own address.
void Engine::native_step(GuestThread& t, Registers& regs, const emu::Fragment* fragment) {
  counts_.native_steps++;
  const bool known = fragment != nullptr;
  const RunId run = known ? fragment->longest_run : RunId();
  const bool traps_itself = traps_like_a_step(t, GuestAddr(regs.rip));
  std::optional<siginfo_t> raised;
  bool saw_trap = false;
  {
    StepMask mask(t.tracee);
    regs.orig_rax = machine::kNoSyscall;
    if (!t.tracee.set_registers_if_alive(regs)) return;
    for (;;) {
      if (!(traps_itself ? t.tracee.cont_if_alive() : t.tracee.step_if_alive())) return;
      const auto stop = stops_.wait_for_stop(t.tracee.tid());
      siginfo_t info;
      if (!stop || !t.tracee.get_registers_if_alive(regs)) return;
      if (stop->kind() == WaitStatus::Kind::signal_stop) {
        if (!t.tracee.get_siginfo_if_alive(info)) return;
        if (traps_itself || ptrace::cause_of(info, regs) != ptrace::SignalCause::single_step) {
          raised = info;
        }
        break;
      }
      saw_trap = saw_trap || stop->is_trap();  // nothing has executed yet
    }
  }
  if (saw_trap && !t.tracee.interrupt_if_alive()) return;
  const bool executed = !raised || raised->si_signo == SIGTRAP;
  if (known && executed) {
    record_run(t, run);
  } else if (executed) {
    append_gap(t, trace::GapReason::native);
  }
  if (raised) return deliver(t, regs, *raised);
  enter(t, regs);
}

bool Engine::is_guard_hit(const GuestThread& t, const siginfo_t& info) const {
  if (info.si_signo != SIGSEGV || info.si_code <= 0 || !t.slot || counting()) return false;
  const auto address = reinterpret_cast<uint64_t>(info.si_addr);
  const uint64_t guard = t.slot->buffer_end(t.buffer);
  return address >= guard && address < guard + limits::kPageBytes;
}

// Hands the filled part of the buffer to the collectors, and goes on in the other one. A record
// that was being written moves along.
void Engine::drain(GuestThread& t) {
  const uint64_t start = t.slot->buffer_guest(t.buffer);
  const uint64_t end = t.slot->buffer_end(t.buffer);
  CHECK(t.cursor >= start && t.cursor <= end, "the trace cursor {:#x} is not in its buffer", t.cursor);
  const size_t used = t.cursor - start;
  const size_t partial = end - t.cursor;
  uint32_t* words = t.slot->buffer_host(t.buffer);
  t.tickets[t.buffer] = sink_.submit({t.tracee.tid(), {words, used / sizeof(trace::Word)}});
  const size_t next = (t.buffer + 1) % emu::kBufferCount;
  sink_.wait(t.tickets[next]);
  if (partial <= 4 * limits::kMaxRecordWords) {
    std::memcpy(t.slot->buffer_host(next), reinterpret_cast<uint8_t*>(words) + used, partial);
  }
  t.buffer = next;
  t.cursor = t.slot->buffer_guest(next);
}

void Engine::drain_in_engine(GuestThread& t, Registers& regs) {
  t.cursor = regs.r15;
  drain(t);
  regs.r15 = t.cursor;
}

// Records that we write ourselves, in a thread that is stopped in guest context.
void Engine::append(GuestThread& t, std::span<const trace::Word> words) {
  if (counting()) return;
  if (t.cursor + words.size_bytes() > t.slot->buffer_end(t.buffer)) drain(t);
  const size_t offset = (t.cursor - t.slot->buffer_guest(t.buffer)) / sizeof(trace::Word);
  std::memcpy(t.slot->buffer_host(t.buffer) + offset, words.data(), words.size_bytes());
  t.cursor += words.size_bytes();
}

void Engine::record_run(GuestThread& t, RunId run) {
  const trace::Word word = run.value;
  append(t, {&word, 1});
  if (!counting()) return;
  if (run.value >= run_counts_.size()) run_counts_.resize(table_.run_count());
  run_counts_[run.value]++;
}

// Thread ids come again; these records keep the threads apart that had the same one.
void Engine::begin_trace(GuestThread& t) {
  const uint64_t number = ++counts_.traces;
  if (counting()) return;
  t.cursor = t.slot->buffer_guest(0);
  const trace::Word words[] = {trace::special_word(trace::SpecialKind::sample_start, 3),
                               static_cast<trace::Word>(number),
                               static_cast<trace::Word>(number >> 32)};
  append(t, words);
}

// When counting, the counters stay in the slot until the address space ends.
void Engine::end_trace(GuestThread& t, trace::EndReason reason) {
  ended_[reason]++;
  if (counting()) return;
  if (reason == trace::EndReason::killed) {
    // What the present buffer holds is lost: how much of it there is, only the thread knew.
    t.cursor = t.slot->buffer_guest(t.buffer);
    append_gap(t, trace::GapReason::lost);
  }
  const trace::Word words[] = {trace::special_word(trace::SpecialKind::sample_end, 2),
                               static_cast<trace::Word>(reason)};
  append(t, words);
  drain(t);
}

void Engine::append_gap(GuestThread& t, trace::GapReason reason) {
  const trace::Word words[] = {trace::special_word(trace::SpecialKind::gap, 2),
                               static_cast<trace::Word>(reason)};
  append(t, words);
}

// After a trap of ours: what force_sig has changed, if the program blocks or ignores the signal.
void Engine::repair_signal_state(GuestThread& t, int signal) {
  const ptrace::RemoteSigaction& action = t.process->actions[static_cast<size_t>(signal)];
  const bool blocked = (t.blocked & ptrace::mask_of(signal)) != 0;
  const bool ignored = action.handler == reinterpret_cast<uint64_t>(SIG_IGN);
  if (!blocked && !ignored) return;
  if (action.handler != reinterpret_cast<uint64_t>(SIG_DFL)) {
    ptrace::RemoteSyscalls remote(t.tracee, t.process->space->syscall_insn(),
                                  ptrace::StopSignal::drop, filters_of(*t.process));
    if (!remote.rt_sigaction(signal, action)) return;
    if (!remote.finish()) return;
    for (const siginfo_t& info : remote.take_deferred_signals()) t.deferred.push_back(info);
  }
  if (!blocked) return;
  const ptrace::SignalMask mask = t.holding ? ptrace::hold_signals(t.blocked) : t.blocked;
  (void)t.tracee.set_signal_mask_if_alive(mask);
}

// Brings a thread that runs in the engine to guest context and leaves it stopped. False: it dies, or
// sleeps in the kernel until others, who may need us, have done something: then it is in the
// gateway.
bool Engine::quiesce(GuestThread& t) {
  if (cannot_be_stopped(t) || !t.tracee.interrupt_if_alive()) return false;
  for (;;) {
    const auto stop = stops_.wait_for_stop(t.tracee.tid());
    Registers regs;
    if (!stop || !t.tracee.get_registers_if_alive(regs)) return false;
    if (stop->kind() == WaitStatus::Kind::event && !stop->is_trap()) {
      if (stop->is_event(ptrace::StopEvent::exit)) {
        on_exit_event(t);
        return false;
      }
      // Resumed, as the interrupt is still pending.
      const bool makes_child = stop->is_event(ptrace::StopEvent::fork) ||
                               stop->is_event(ptrace::StopEvent::vfork) ||
                               stop->is_event(ptrace::StopEvent::clone);
      makes_child ? on_new_child(t, stop->event()) : resume(t);
      if (t.in_vfork) return false;
      continue;
    }
    return settle(t, *stop, regs);
  }
}

// A parent that waits for its vfork child, and a thread that waits for the others of its process
// to end, because it executes another program.
bool Engine::cannot_be_stopped(const GuestThread& t) const {
  if (t.in_vfork) return true;
  if (!t.executing) return false;
  std::ifstream file(fmt::format("/proc/{}/syscall", t.tracee.tid().value));
  long nr = -1;
  return (file >> nr) && (nr == SYS_execve || nr == SYS_execveat);
}

// Engine to guest context, at a stop that is no event but our interrupt's. False: it died.
bool Engine::settle(GuestThread& t, const WaitStatus& stop, Registers& regs) {
  siginfo_t info;
  if (stop.kind() == WaitStatus::Kind::signal_stop && t.tracee.get_siginfo_if_alive(info)) {
    if (stop.signal() == SIGTRAP && t.process->space->cache().contains(regs.rip - 1)) {
      repair_signal_state(t, SIGTRAP);
      regs.rip--;
    } else if (is_guard_hit(t, info)) {
      repair_signal_state(t, SIGSEGV);
      drain_in_engine(t, regs);
    } else {
      t.deferred.push_back(info);
    }
  } else {
    ptrace::conceal_interruption(regs);
  }
  if (!t.tracee.set_registers_if_alive(regs) || !to_guest(t, regs)) return false;
  return t.tracee.set_registers_if_alive(regs);
}

}  // namespace shadowprof::inject
