// SPDX-License-Identifier: MIT
//
// A guest process: its threads, its address space (shared with another process after vfork), and
// what must be remembered of its signal dispositions.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "inject/fixed/virtual_machine.h"
#include "inject/guest_thread.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::inject {

inline constexpr ptrace::SignalMask kOwnSignalMask = [] {
  ptrace::SignalMask mask = 0;
  for (const int signal : cache::kOwnSignals) mask |= ptrace::mask_of(signal);
  return mask;
}();

class GuestProcess {
 public:
  explicit GuestProcess(Tid id) : pid(id) {}

  Tid pid;
  Tid own_id;  // in its own PID namespace; 0: not asked for yet
  std::shared_ptr<cache::AddressSpace> space;
  // As the program set them; only for signals that our own traps use.
  std::array<ptrace::RemoteSigaction, 65> actions{};
  bool actions_known = true;  // false: see note_mask()
  bool native = false;   // has left the engine
  bool is_ending = false;  // with all its threads
  bool is_root = false;  // the one that was launched
  VirtualMachine::Share machine_share;
  uint64_t began_ns = 0;  // VirtualClock::worked_ns()
  double cpu_s = 0;       // processor time when one of its threads last ended
};

// System calls that a thread makes for us, which is stopped in guest context. Signals that arrive
// meanwhile are deferred.
class GuestCalls : public ptrace::RemoteSyscalls {
 public:
  explicit GuestCalls(GuestThread& t, ptrace::StopSignal stop_signal = ptrace::StopSignal::drop)
      : RemoteSyscalls(t.tracee, t.process->space->syscall_insn(), t.options, stop_signal) {
    keep_signals_in(t.deferred);
  }
};

}  // namespace shadowprof::inject
