// SPDX-License-Identifier: MIT
#include "inject/guest_stop.h"

#include "ptrace/signal_cause.h"
#include "trace/record.h"

namespace shadowprof::inject {
namespace {

// What decode_stop() would have said, had the program not sent this signal while it blocks it: the
// kernel keeps one SIGTRAP and one SIGSEGV at a time, and lets that one through in place of ours
// (kernel/signal.c force_sig_info_to_task, legacy_queue).
cache::Stop decode_hidden_stop(const GuestThread& t, const ptrace::Registers& regs, int signal) {
  siginfo_t own{};
  own.si_signo = signal;
  own.si_code = SI_KERNEL;
  const uint64_t end = t.slot->buffer_end(t.buffer);
  constexpr uint64_t kLongestRecord = sizeof(trace::Word) * limits::kMaxRecordWords;
  if (signal == SIGSEGV && regs.r15 <= end && end - regs.r15 < kLongestRecord) {
    own.si_code = SEGV_ACCERR;
    own.si_addr = reinterpret_cast<void*>(end);
  }
  return decode_stop(t, regs, own);
}

}  // namespace

cache::Stop decode_stop(const GuestThread& t, const ptrace::Registers& regs,
                        const siginfo_t& info) {
  if (!t.in_engine) return cache::decode_guest_stop(regs, info);
  return cache::decode_stop(t.process->space->cache(), *t.slot, t.buffer, regs, info);
}

cache::Stop reveal_stop(GuestThread& t, const ptrace::Registers& regs, const siginfo_t& info) {
  const cache::Stop stop = decode_stop(t, regs, info);
  const ptrace::SignalMask sent = ptrace::mask_of(info.si_signo);
  if (stop.kind != cache::Stop::Kind::sent || !t.in_engine || !(t.blocked & sent)) return stop;
  const cache::Stop hidden = decode_hidden_stop(t, regs, info.si_signo);
  if (hidden.is_trap() || hidden.kind == cache::Stop::Kind::full_buffer ||
      hidden.kind == cache::Stop::Kind::unreadable_mask) {
    t.deferred.push_back(info);
    return hidden;
  }
  ptrace::SignalMask mask = 0;
  const bool may_be_fault = hidden.kind == cache::Stop::Kind::fault && info.si_signo != SIGTRAP &&
                            (sent & ptrace::kInstructionSignals) &&
                            !(regs.eflags & machine::flags::kAlignmentCheck);
  const bool is_forced = may_be_fault && t.tracee.get_signal_mask_if_alive(mask) && !(mask & sent);
  return is_forced ? hidden : stop;
}

bool is_in_cut_call(GuestThread& t, const ptrace::WaitStatus& status) {
  ptrace::Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return true;
  const bool of_call = status.kind() == ptrace::WaitStatus::Kind::syscall_stop;
  if (!of_call) {
    t.cut.finish(regs);
  } else if (!t.cut.look(t.tracee, status, false, regs)) {
    return true;
  }
  (void)t.tracee.set_registers_if_alive(regs);
  return of_call;
}

}  // namespace shadowprof::inject
