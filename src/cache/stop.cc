// SPDX-License-Identifier: MIT
#include "cache/stop.h"

#include "base/check.h"
#include "ptrace/signal_cause.h"

namespace shadowprof::cache {
namespace {

using emu::CachePosition;
using ptrace::SignalCause;
using Kind = Stop::Kind;

// An int3 at a point. `fault`: there is none of ours.
Kind kind_at_point(const emu::CodeCache& cache, const CachePosition& at) {
  if (at.point.recovery & emu::kSetsTrapFlag) return Kind::sets_trap_flag;
  switch (cache.fragment(at.fragment).kind) {
    case emu::FragmentKind::native:
      return Kind::native_insn;
    case emu::FragmentKind::unsupported:
      return Kind::unsupported;
    case emu::FragmentKind::translated:
      break;
  }
  return at.point.recovery & emu::kPointerStored ? Kind::stored_pointer : Kind::fault;
}

Kind kind_of_int3(const emu::CodeCache& cache, const CachePosition& at) {
  switch (at.kind) {
    case CachePosition::Kind::unlinked_exit:
      return Kind::miss;
    case CachePosition::Kind::branch_miss:
      return Kind::branch_miss;
    case CachePosition::Kind::log_full:
      return Kind::log_full;
    case CachePosition::Kind::stale:
      return Kind::stale;
    case CachePosition::Kind::syscall_trap:
      return Kind::system_call;
    case CachePosition::Kind::call_over:
      return Kind::call_over;
    case CachePosition::Kind::turn_over:
      return Kind::turn_over;
    case CachePosition::Kind::point:
      return kind_at_point(cache, at);
    case CachePosition::Kind::outside:
    case CachePosition::Kind::between:
    case CachePosition::Kind::before_syscall:
    case CachePosition::Kind::after_syscall:
      break;
  }
  return Kind::fault;
}

Kind kind_of(SignalCause cause) {
  switch (cause) {
    case SignalCause::sent:
      return Kind::sent;
    case SignalCause::single_step:
      return Kind::step;
    case SignalCause::hardware_breakpoint:
      return Kind::watchpoint;
    case SignalCause::breakpoint:
    case SignalCause::fault:
    case SignalCause::syscall_filter:
      break;
  }
  return Kind::fault;
}

// An instruction of the cache has failed.
Kind kind_of_fault(const emu::CodeCache& cache, const Slot& slot, size_t buffer,
                   const machine::Registers& regs, const siginfo_t& info, const CachePosition& at) {
  if (has_trace(cache.recording())) {
    const GuestAddr address(reinterpret_cast<uint64_t>(info.si_addr));
    if (info.si_signo == SIGSEGV && slot.guard(buffer).contains(address)) return Kind::full_buffer;
    if (info.si_signo == SIGBUS && info.si_code == BUS_ADRALN &&
        (regs.eflags & machine::flags::kAlignmentCheck) != 0) {
      return Kind::unaligned;
    }
  }
  if (at.kind == CachePosition::Kind::between) return Kind::unreadable_code;
  if (at.kind == CachePosition::Kind::before_syscall) return Kind::unreadable_mask;
  const bool is_at_point = at.kind == CachePosition::Kind::point;
  return is_at_point && at.point.recovery & emu::kReadsAhead ? Kind::read_ahead : Kind::fault;
}

}  // namespace

Stop decode_stop(const emu::CodeCache& cache, const Slot& slot, size_t buffer,
                 const machine::Registers& regs, const siginfo_t& info) {
  const SignalCause cause = ptrace::cause_of(info, regs);
  if (cause == SignalCause::breakpoint) {
    const CachePosition at = cache.locate(regs.rip - 1);
    Stop stop{kind_of_int3(cache, at), at, {}};
    if (stop.is_trap()) {
      if (stop.kind != Kind::log_full && stop.kind != Kind::turn_over)
        stop.pc = guest_pc(cache, slot, regs, at);
      return stop;
    }
  }
  if (cause == SignalCause::sent) return {Kind::sent, {}, {}};
  const CachePosition at = cache.locate(regs.rip);
  const bool failed = cause == SignalCause::fault && cache.contains(regs.rip);
  Stop stop{failed ? kind_of_fault(cache, slot, buffer, regs, info, at) : kind_of(cause), at, {}};
  if (stop.kind == Kind::unreadable_mask) stop.pc = guest_pc(cache, slot, regs, at);
  return stop;
}

Stop decode_guest_stop(const machine::Registers& regs, const siginfo_t& info) {
  return {kind_of(ptrace::cause_of(info, regs)), {}, {}};
}

RunId branching_site(const emu::CodeCache& cache, const Slot& slot) {
  return has_counts(cache.recording()) ? RunId(static_cast<uint32_t>(slot.state().site))
                                       : emu::kAnySite;
}

GuestAddr guest_pc(const emu::CodeCache& cache, const Slot& slot, const machine::Registers& regs,
                   const CachePosition& at) {
  switch (at.kind) {
    case CachePosition::Kind::point:
      return cache.fragment(at.fragment).start +
             static_cast<uint64_t>(int64_t{at.point.guest_delta});
    case CachePosition::Kind::unlinked_exit:
      return cache.exit(at.exit).target;
    case CachePosition::Kind::stale:
      return cache.fragment(at.fragment).start;
    case CachePosition::Kind::branch_miss: {
      const int64_t number = cache.site_number(branching_site(cache, slot));
      return GuestAddr(regs.rcx - static_cast<uint64_t>(number));
    }
    case CachePosition::Kind::syscall_trap:
    case CachePosition::Kind::before_syscall:
      return GuestAddr(slot.state().next_pc - machine::kSyscallInsnBytes);
    case CachePosition::Kind::after_syscall:
    case CachePosition::Kind::call_over:
      return GuestAddr(slot.state().next_pc);
    case CachePosition::Kind::log_full:
    case CachePosition::Kind::turn_over:
    case CachePosition::Kind::outside:
    case CachePosition::Kind::between:
      break;
  }
  SP_CHECK(false, "no guest state at {:#x}", +regs.rip);
  return {};
}

}  // namespace shadowprof::cache
