// SPDX-License-Identifier: MIT
//
// One kernel thread that we trace: every ptrace request of this program is made here.
//
// Rules of the kernel that shape this interface:
// - Requests are obeyed only from the thread that seized the tracee. A Tracee is a name, not a
//   lock: copy it freely, use it from the tracer's thread only.
// - Every request but interrupt needs the tracee in a ptrace stop, and one that wait (wait.h) has
//   reported. Asked of a running thread the kernel answers ESRCH, as for a dead one; so "not alive"
//   below also hides the mistake of asking too early.
// - SIGKILL, another thread's exit_group and another thread's execve take a stopped tracee away at
//   any moment. From then on every request answers ESRCH until wait reports the death. This is why
//   nothing here is certain to succeed, and why the policy is in the name:
//     x_if_alive  false: the thread is dying or gone; wait for it. Any other failure is an
//     SP_CHECK. try_x       a Result: the same with an Error (errno ESRCH), and other failures as
//     Errors. must_x      SP_CHECKs; for tests and places where the thread cannot die.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "machine/registers.h"
#include "ptrace/wait_status.h"

struct sock_filter;

namespace shadowprof::ptrace {

using machine::Registers;

// What we want to be told, and what shall happen to tracees; a set of bits.
enum class TraceOptions : uint32_t {
  none = 0,
  mark_syscall_stops = 1u << 0,  // TRACESYSGOOD; RemoteSyscalls requires it
  follow_fork = 1u << 1,         // children are traced from their first instruction on
  follow_vfork = 1u << 2,
  follow_clone = 1u << 3,
  report_exec = 1u << 4,
  report_vfork_done = 1u << 5,
  report_exit = 1u << 6,
  report_seccomp = 1u << 7,
  exit_kill = 1u << 8,        // tracees die with us: only for programs that we started
  suspend_seccomp = 1u << 9,  // needs CAP_SYS_ADMIN; filters do not see calls meanwhile
};
constexpr TraceOptions operator|(TraceOptions a, TraceOptions b) {
  return static_cast<TraceOptions>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr bool has(TraceOptions set, TraceOptions bit) {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(bit)) != 0;
}

// Bit n-1 stands for signal n, as in the kernel (glibc's sigset_t is 128 bytes, the kernel's 8).
using SignalMask = uint64_t;
constexpr SignalMask mask_of(int signal) {
  return SignalMask{1} << (signal - 1);
}

// What an instruction can raise. Never block these where the program does not: a blocked signal
// that an instruction raises has its disposition reset to default, and kills.
inline constexpr SignalMask kInstructionSignals = mask_of(SIGSEGV) | mask_of(SIGBUS) |
                                                  mask_of(SIGFPE) | mask_of(SIGILL) |
                                                  mask_of(SIGTRAP) | mask_of(SIGSYS);
// Keeps all other signals waiting in the kernel's queues, in their order.
constexpr SignalMask hold_signals(SignalMask of_program) {
  return of_program | ~kInstructionSignals;
}

// Vector, x87 and further processor state in XSAVE layout (without compaction), as large as this
// processor has it.
using ExtendedState = std::vector<uint8_t>;

// prctl(2), PR_SET_SYSCALL_USER_DISPATCH; as the kernel's struct ptrace_sud_config.
struct UserDispatch {
  uint64_t mode = 0;  // 0: off
  uint64_t selector = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

class Tracee {
 public:
  explicit Tracee(Tid tid) : tid_(tid) {}
  Tid tid() const { return tid_; }

  // --- State. The thread must be in a ptrace stop.

  [[nodiscard]] bool get_registers_if_alive(Registers& out) const;
  Result<Registers> try_get_registers() const;
  Registers must_get_registers() const;

  // All of them, orig_rax included. At a stop inside the kernel's signal code the kernel looks at
  // them again when the thread is resumed: with orig_rax >= 0 and a restart code in rax the
  // (current) registers are turned into a restarted system call. At a syscall exit stop it does
  // so only if a signal is pending.
  [[nodiscard]] bool set_registers_if_alive(const Registers& registers) const;
  // Also says "no" (EIO) for values that the kernel refuses, such as a non-canonical gs_base.
  Status try_set_registers(const Registers& registers) const;
  // One of the processor's debug registers (hardware_breakpoint.h).
  Status try_set_debug_register(unsigned index, uint64_t value) const;
  Result<uint64_t> try_get_debug_register(unsigned index) const;
  void must_set_registers(const Registers& registers) const;

  [[nodiscard]] bool get_extended_state_if_alive(ExtendedState& out) const;
  // `state` must come from get_extended_state_if_alive of any thread on this machine.
  [[nodiscard]] bool set_extended_state_if_alive(const ExtendedState& state) const;

  // About the stop: at a signal-delivery-stop the signal's own siginfo.
  [[nodiscard]] bool get_siginfo_if_alive(siginfo_t& out) const;
  // At a signal-delivery-stop only: the siginfo that the handler will see, if the thread is then
  // resumed with the signal info.si_signo. It may be another signal than the one that stopped it.
  [[nodiscard]] bool set_siginfo_if_alive(const siginfo_t& info) const;

  // Signals that wait for this thread alone, or for any of its process, those that it blocks
  // included. What an instruction has raised is among the first until a signal-delivery-stop
  // reports it; the stop that an interrupt asked for comes first (kernel/signal.c, get_signal).
  enum class SignalQueue : uint8_t { thread, process };
  [[nodiscard]] bool get_pending_signals_if_alive(SignalMask& out,
                                                  SignalQueue which = SignalQueue::thread) const;

  // The mask that the program set: inside sigsuspend, ppoll and the like it is the mask that will
  // be put back, not the temporary one (kernel/ptrace.c, PTRACE_GETSIGMASK).
  [[nodiscard]] bool get_signal_mask_if_alive(SignalMask& out) const;
  // Also forgets a temporary mask that is in force.
  [[nodiscard]] bool set_signal_mask_if_alive(SignalMask mask) const;

  // After fork, vfork, clone: the child. exec: the former thread id. exit: the raw wait status.
  [[nodiscard]] bool get_event_message_if_alive(uint64_t& out) const;

  // The stop that the thread is in, asked of the kernel. Needs no wait in between; so what wait
  // reported last and what other code did since need not be remembered.
  [[nodiscard]] bool current_stop_if_alive(WaitStatus& out) const;

  enum class SyscallStop : uint8_t { entry, exit, neither };
  struct SyscallStopInfo {
    SyscallStop which = SyscallStop::neither;
    bool is_x86_64 = true;  // false for int 0x80 and compatibility mode
    // At entry.
    long nr = -1;
    std::array<uint64_t, 6> args{};
    int64_t result = 0;  // at exit
  };
  [[nodiscard]] bool get_syscall_stop_if_alive(SyscallStopInfo& out) const;

  // Where the thread registered its struct rseq (rseq(2)); null when it did not, or when the kernel
  // cannot tell (before 5.13).
  [[nodiscard]] bool get_rseq_if_alive(GuestAddr& out) const;

  // Which of its system calls the thread has turned into SIGSYS; none, where the kernel cannot tell
  // (before 6.4).
  [[nodiscard]] bool get_user_dispatch_if_alive(UserDispatch& out) const;
  [[nodiscard]] bool set_user_dispatch_if_alive(const UserDispatch& dispatch) const;

  // The index-th of its seccomp filters. False: it has not so many. An Error without CAP_SYS_ADMIN,
  // and where we are below a filter ourselves.
  Result<bool> read_filter(size_t index, std::vector<sock_filter>& out) const;

  // --- Resuming. The thread must be in a ptrace stop. `signal` 0 delivers none. At a
  // signal-delivery-stop `signal` is delivered at once; at a syscall stop it is sent to the thread
  // anew (with si_code SI_KERNEL) and will be reported; at all other stops it is ignored.

  [[nodiscard]] bool cont_if_alive(int signal = 0) const;
  // Until the next syscall entry or exit stop.
  [[nodiscard]] bool syscall_if_alive(int signal = 0) const;
  // One instruction. It ends with SIGTRAP through force_sig, which unblocks SIGTRAP and resets its
  // disposition if the program blocks or ignores it: never on a thread that must not notice.
  [[nodiscard]] bool step_if_alive(int signal = 0) const;
  // At a trap stop (WaitStatus::is_trap): stay stopped, but report when a group stop ends.
  [[nodiscard]] bool listen_if_alive() const;

  // Makes a running thread stop with StopEvent::stop (inside a blocking system call, too, which is
  // thereby interrupted: see interruption.h). In a stopped thread the request stays pending and
  // takes effect before it next reaches user mode. May be called at any time.
  [[nodiscard]] bool interrupt_if_alive() const;

  // Ends tracing. `signal` as for cont. A group-stopped process stays stopped.
  [[nodiscard]] bool detach_if_alive(int signal = 0) const;

  // Replaces the options given at seize time.
  [[nodiscard]] bool set_options_if_alive(TraceOptions options) const;
  // Also says "no" (EPERM) to suspend_seccomp without CAP_SYS_ADMIN, or from inside a filter.
  Status try_set_options(TraceOptions options) const;

  bool operator==(const Tracee&) const = default;

 private:
  [[nodiscard]] bool request_if_alive(int request, uint64_t address, void* data,
                                      const char* name) const;

  Tid tid_;
};

// Begins to trace a thread without stopping it. It must be ours to trace: the Error says in one
// sentence who else traces it, or which right is missing. For a process call it for every thread.
Result<Tracee> seize(Tid tid, TraceOptions options);

// The Error of an x_if_alive that was false.
tl::unexpected<Error> thread_is_gone(Tid tid);

}  // namespace shadowprof::ptrace
