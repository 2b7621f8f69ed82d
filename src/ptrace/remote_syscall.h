// SPDX-License-Identifier: MIT
//
// System calls executed by a stopped tracee on our behalf, without the program noticing.
//
//   RemoteSyscalls remote(tracee, syscall_insn);
//   SP_ASSIGN(GuestAddr arena, remote.mmap(...));
//   SP_ASSIGN(WaitStatus stop, remote.finish());
//
// A series of calls begins with the first and ends with finish(). Meanwhile the thread's registers
// are ours. Each call goes syscall-entry-stop, syscall-exit-stop (PTRACE_SYSCALL), never by single
// step: the debug exception's SIGTRAP goes through force_sig, which resets the program's
// disposition of SIGTRAP if it is blocked or ignored (kernel/signal.c, force_sig_info_to_task).
//
// Where it may begin: the tracee, seized with mark_syscall_stops, stands in a ptrace stop that wait
// has reported: a signal-delivery-stop, a trap stop (interrupt, group stop, a new child's first
// stop), a syscall entry or exit stop, an exec, fork, clone or vfork_done event. Not (an Error):
// exit events (such a thread never comes back to user mode), vfork events (it sleeps until its
// child is done), seccomp events, and threads that run 32-bit code.
//
// What is as before after finish(): all registers with orig_rax; a system call that was interrupted
// restarts, or returns EINTR, just as if we had not been there (also when it would have
// returned EINTR because of our interrupt: interruption.h); the interrupted rseq critical section
// is still one; signal mask and dispositions.
//
// Which stop the thread is in after finish():
//   before                        after
//   signal-delivery-stop, keep    signal-delivery-stop for the same signal and siginfo
//   signal-delivery-stop, drop    syscall exit stop or trap stop; the signal is gone
//   interrupt stop                syscall exit stop or trap stop
//   group stop                    group stop, or StopEvent::stop if it has ended meanwhile
//   syscall entry stop            syscall entry stop of the same call
//   syscall exit stop             syscall exit stop or trap stop
//   exec, fork, clone event       exit stop of that system call
// All can be resumed with signal 0. A pending interrupt is used up by a series that ends in a trap
// stop, which is what the interrupt asked for.
//
// Signals that arrive meanwhile are neither lost nor delivered early: nearly all are blocked for
// the series and wait in the kernel's queues, in their order. Those that instructions can raise
// are not (kInstructionSignals); if somebody sends one just then, or one was due (an instruction of
// the program's raised it, and our stop came first), it is kept: keep_signals_in(), to be given
// back with give_back (deliver.h). SIGSTOP takes effect at once, and is reported as a group stop at
// the end.
//
// If the thread dies meanwhile, every call answers ESRCH and finish() does nothing; the report of
// the death is still to come from the caller's own wait.
//
// Calls that block are allowed, but those that restart by way of restart_syscall(2) (nanosleep,
// poll, futex with a timeout) are not: they overwrite the state of the program's own such call.
//
// Seccomp filters would judge our calls, too. They are suspended from before the first call to the
// end of the series, always, whether the thread is known to have any or not. Where that is not
// allowed (filters.h) a thread that has filters makes no call: the series does not begin, with
// EPERM. There is a moment left then between the look at its filters and the call in which a thread
// that runs may put one upon all others; and where we die in the middle of a call of a thread with
// filters, they judge it.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "ptrace/escape.h"
#include "ptrace/quiet_run.h"
#include "ptrace/remote_memory.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// What becomes of the signal that the thread is stopped for when the series begins: `drop` is for
// traps and faults that we caused ourselves, and costs a stop less.
enum class StopSignal : uint8_t { keep, drop };

// How the thread is traced, and will be again.
struct Caller {
  Caller(TraceOptions with, bool may_call = false) : options(with), is_permitted(may_call) {}
  TraceOptions options;
  // permit_calls() has said so, and nobody could put another filter upon the thread since: it is
  // alone in its process, and makes no calls but ours.
  bool is_permitted;
};

// The kernel's struct sigaction (not glibc's).
struct RemoteSigaction {
  uint64_t handler = 0;  // or SIG_DFL 0, SIG_IGN 1
  uint64_t flags = 0;
  uint64_t restorer = 0;
  SignalMask mask = 0;
};

class RemoteSyscalls {
 public:
  // syscall_insn: where the bytes 0f 05 are executable in the tracee (find_syscall_instruction).
  RemoteSyscalls(Tracee tracee, GuestAddr syscall_insn, Caller caller,
                 StopSignal stop_signal = StopSignal::keep);
  // Before the first call: if we die in the middle of it, the thread is to find its way back
  // (escape.h), over its own `stack`. Where that is not possible, it is as without.
  void escape_by(const EscapeRoute& route, GuestRange stack) { escape_.emplace(route, stack); }
  // For a clone(2) without CLONE_VM, after the first call or prepare(): its child, if nobody holds
  // it any more, is to end. 0: there is no such stack.
  GuestAddr stack_of_child() const {
    return escape_ ? escape_->stack_of_child() : GuestAddr();
  }
  // `act` is done once if a call waits in the kernel for tens of milliseconds: perhaps for a thread
  // that we have stopped. The call is waited for all the same.
  void when_it_waits(std::function<void()> act) { run_.when_it_waits(std::move(act)); }
  // Who makes the calls.
  Tid thread() const { return tracee_.tid(); }
  // Begins the series, as its first call would.
  Status prepare() { return begin(); }
  // finish(), if that was not done; an error then is lost.
  ~RemoteSyscalls();
  RemoteSyscalls(const RemoteSyscalls&) = delete;
  RemoteSyscalls& operator=(const RemoteSyscalls&) = delete;

  // The kernel's answer: a negative value is -errno. An Error says that the call could not be made.
  // A call that is interrupted nevertheless is repeated until it is through, unless the kernel's
  // answer is EINTR itself.
  template <typename... Args>
  Result<int64_t> call(int64_t number, Args... args) {
    static_assert(sizeof...(Args) <= 6);
    const uint64_t values[7] = {to_word(args)...};
    return call_words(number, std::span<const uint64_t>(values, 6));
  }

  // As the calls of the same name; a failure of the call is an Error with its errno.
  Result<GuestAddr> mmap(GuestAddr at, uint64_t bytes, int protection, int flags, int fd = -1,
                         uint64_t offset = 0);
  Status munmap(GuestAddr at, uint64_t bytes);
  Status mprotect(GuestAddr at, uint64_t bytes, int protection);
  Status madvise(GuestAddr at, uint64_t bytes, int advice);
  Result<int> openat(int directory, const std::string& path, int flags, unsigned mode = 0);
  Status close(int fd);
  // Returns the former action.
  Result<RemoteSigaction> rt_sigaction(int signal, const RemoteSigaction& action);
  Result<RemoteSigaction> get_sigaction(int signal);

  // Puts bytes below the red zone of the thread's stack while `use(address)` runs, and what was
  // there back afterwards.
  Status with_bytes_on_stack(std::span<uint8_t> bytes, const std::function<Status(GuestAddr)>& use);

  // Puts the thread back. Returns the stop that it is in now. Idempotent; without any call before
  // nothing is touched.
  Result<WaitStatus> finish();

  // finish() appends the signals that were met to these, in the order of arrival. Without, they are
  // lost: for threads of ours only.
  void keep_signals_in(std::vector<siginfo_t>& signals) { heir_ = &signals; }

  // The registers that finish() puts back: the caller may change them in a series (after the first
  // call) rather than after it.
  Registers& saved_registers() { return saved_; }
  // The same for the signal mask.
  SignalMask& saved_signal_mask() { return saved_mask_; }

  // The child that the last call (fork, clone) made, where an option follows it; its first stop is
  // still to be waited for. Tid 0: none.
  Tid child_of_last_call() const { return run_.child(); }

 private:
  enum class State : uint8_t { idle, active, finished, lost };
  // What must happen at the end so that the thread is again in a stop of the kind it was in.
  enum class Ending : uint8_t { exit_stop, trap_stop, signal_stop, entry_stop };

  template <typename T>
  static uint64_t to_word(T value) {
    if constexpr (std::is_same_v<T, GuestAddr>)
      return value.value;
    else
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }

  Result<int64_t> call_words(int64_t number, std::span<const uint64_t> arguments);
  Result<int64_t> call_once(int64_t number, std::span<const uint64_t> arguments);
  Status begin();
  Status begin_at(const WaitStatus& stop);
  Status prepare_escape();
  Status suspend_filters();
  bool resume_filters();
  Status leave_stop(const WaitStatus& stop);
  Status leave_syscall_stop();
  Status remember_rseq();
  Status restore_rseq();
  Status suspend_dispatch();
  Status restore_dispatch();
  Status run_to_syscall_stop();
  Status end_at_entry_stop();
  Status end_at_trap_stop();
  Status end_at_signal_stop();
  Status end();
  tl::unexpected<Error> gone();

  Tracee tracee_;
  GuestAddr syscall_insn_;
  Caller caller_;
  StopSignal stop_signal_;
  RemoteMemory memory_;
  std::optional<Escape> escape_;  // only if it is in place, as soon as the series has begun
  std::vector<siginfo_t> deferred_;
  std::vector<siginfo_t>* heir_ = nullptr;
  QuietRun run_;
  State state_ = State::idle;
  bool suspended_ = false;  // the thread's filters
  Ending ending_ = Ending::exit_stop;
  Registers saved_{};
  SignalMask saved_mask_ = 0;
  UserDispatch dispatch_;  // of the program: our calls are not for it
  siginfo_t stop_info_{};
  GuestAddr rseq_;             // null: no critical section was interrupted
  uint64_t rseq_section_ = 0;  // struct rseq's rseq_cs, if rseq_ is set
};

// An executable `syscall` instruction in one of the ranges, which are searched in their order: put
// [vdso] first, where every program begins with one. An Error if there is none.
Result<GuestAddr> find_syscall_instruction(std::span<const GuestRange> executable,
                                           RemoteMemory& memory);
// Is it still one? Programs may unmap any of their code (valgrind does the vdso).
bool is_syscall_instruction(GuestAddr at, std::span<const GuestRange> executable,
                            RemoteMemory& memory);

}  // namespace shadowprof::ptrace
