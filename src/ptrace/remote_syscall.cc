// SPDX-License-Identifier: MIT
//
// See the header for what a series promises. How the kernel decides about restarts explains the
// endings: it looks at the registers only inside its signal code (arch_do_signal_or_restart), which
// a thread passes when something is pending. A thread that we leave at a syscall exit stop with
// restored registers would return to user mode with -ERESTARTSYS in rax. So wherever a decision is
// open the series ends at a stop inside the signal code: a trap stop by our own interrupt, or a
// signal-delivery-stop.
#include "ptrace/remote_syscall.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "ptrace/deliver.h"
#include "ptrace/filters.h"
#include "ptrace/interruption.h"
#include "ptrace/signal_cause.h"
#include "ptrace/wait.h"

namespace shadowprof::ptrace {
namespace {

using Kind = WaitStatus::Kind;

// struct rseq: cpu_id_start, cpu_id, then the pointer to the critical section (linux/rseq.h).
constexpr uint64_t kRseqSectionOffset = 8;

constexpr uint8_t kInsn[machine::kSyscallInsnBytes] = {0x0f, 0x05};

bool is_syscall_stop(const WaitStatus& stop) {
  return stop.kind() == Kind::syscall_stop;
}
bool is_trap_stop(const WaitStatus& stop) {
  return stop.is_trap();
}

// Has the thread been stopped by the instruction at `at`, where it was sent with the trap flag
// clear? Else the signal is of an instruction of the program's, which had executed when we stopped
// it, and was still to be delivered.
bool is_raised_at(GuestAddr at, const siginfo_t& info, const Registers& now) {
  const GuestAddr address(reinterpret_cast<uint64_t>(info.si_addr));
  switch (cause_of(info, now)) {
    case SignalCause::sent:
    case SignalCause::syscall_filter:
      return false;
    case SignalCause::breakpoint:
    case SignalCause::single_step:
      return now.pc() != at;  // it is behind its int3, or int1
    case SignalCause::hardware_breakpoint:
      return true;
    case SignalCause::fault:
      break;
  }
  if (info.si_code == SI_KERNEL) return true;  // it has no address
  const bool is_of_memory = info.si_signo == SIGSEGV || info.si_signo == SIGBUS;
  return is_of_memory ? address.page() == at.page() : address == at;
}

bool wants_restart(int64_t result) {
  return result == machine::kRestartSys || result == machine::kRestartNoIntr ||
         result == machine::kRestartNoHandler;
}

}  // namespace

RemoteSyscalls::RemoteSyscalls(Tracee tracee, GuestAddr syscall_insn, Caller caller,
                               StopSignal stop_signal)
    : tracee_(tracee),
      syscall_insn_(syscall_insn),
      caller_(caller),
      stop_signal_(stop_signal),
      memory_(tracee.tid()),
      run_(tracee, deferred_) {}

RemoteSyscalls::~RemoteSyscalls() {
  (void)finish();
}

tl::unexpected<Error> RemoteSyscalls::gone() {
  state_ = State::lost;
  return thread_is_gone(tracee_.tid());
}

// --- Beginning

Status RemoteSyscalls::begin() {
  SP_CHECK(state_ != State::finished, "the series is over");
  if (state_ == State::active) return {};
  if (state_ == State::lost) return gone();
  WaitStatus stop;
  if (!tracee_.current_stop_if_alive(stop) || !tracee_.get_registers_if_alive(saved_)) {
    return gone();
  }
  if (!saved_.is_64_bit()) {
    return fail("thread {} runs 32-bit code", tracee_.tid().value);
  }
  SP_TRY(suspend_filters());
  Status ready = begin_at(stop);
  if (!ready) (void)resume_filters();
  return ready;
}

Status RemoteSyscalls::begin_at(const WaitStatus& stop) {
  SP_TRY(leave_stop(stop));
  SP_TRY(remember_rseq());
  if (!tracee_.get_signal_mask_if_alive(saved_mask_)) return gone();
  SP_TRY(prepare_escape());
  if (!tracee_.set_signal_mask_if_alive(hold_signals(saved_mask_))) return gone();
  SP_TRY(suspend_dispatch());
  state_ = State::active;
  return {};
}

// From here on the thread finds its way back, until it has its own registers again.
Status RemoteSyscalls::prepare_escape() {
  const bool possible = escape_ && ending_ == Ending::exit_stop &&
                        escape_->put(tracee_, memory_, saved_, saved_mask_);
  if (!possible) {
    escape_.reset();
    return {};
  }
  syscall_insn_ = escape_->syscall_insn();
  Registers registers = saved_;
  escape_->stand_by(registers);
  return tracee_.set_registers_if_alive(registers) ? Status{} : gone();
}

Status RemoteSyscalls::suspend_filters() {
  const Status done = tracee_.try_set_options(caller_.options | TraceOptions::suspend_seccomp);
  suspended_ = done.has_value();
  if (done || done.error().errno_value == ESRCH) return done;
  return caller_.is_permitted ? Status{} : permit_calls(tracee_.tid());
}

// True as well if the thread is gone: then they do not matter.
bool RemoteSyscalls::resume_filters() {
  return !std::exchange(suspended_, false) || tracee_.set_options_if_alive(caller_.options);
}

// Leaves a stop at which the thread is in the middle of a system call, and decides the ending.
Status RemoteSyscalls::leave_stop(const WaitStatus& stop) {
  switch (stop.kind()) {
    case Kind::signal_stop:
      if (stop_signal_ == StopSignal::keep) {
        ending_ = Ending::signal_stop;
        if (!tracee_.get_siginfo_if_alive(stop_info_)) return gone();
      }
      return {};
    case Kind::group_stop:
      ending_ = Ending::trap_stop;
      return {};
    case Kind::syscall_stop:
      return leave_syscall_stop();
    case Kind::event:
      break;
    case Kind::exited:
    case Kind::killed:
      return gone();
  }
  switch (stop.event()) {
    case StopEvent::stop:
      (void)conceal_interruption(tracee_, saved_);
      return {};
    case StopEvent::exec:
    case StopEvent::fork:
    case StopEvent::clone:
    case StopEvent::vfork_done:
      // The kernel writes the result into rax on the way to the exit stop, no matter what we put
      // there now.
      SP_TRY(run_to_syscall_stop());
      run_.forget_child();
      if (!tracee_.get_registers_if_alive(saved_)) return gone();
      return {};
    case StopEvent::exit:
      return gone();
    default:
      return fail("thread {} cannot execute a system call at its {}", tracee_.tid().value,
                  to_string(stop));
  }
}

// From an entry stop the program's call is skipped (a harmless one takes its place) and entered
// again at the end. Not by number -1: a seccomp filter would see and judge that.
Status RemoteSyscalls::leave_syscall_stop() {
  Tracee::SyscallStopInfo info;
  if (!tracee_.get_syscall_stop_if_alive(info)) return gone();
  if (info.which != Tracee::SyscallStop::entry) return {};
  if (!info.is_x86_64) return fail("thread {} is in a 32-bit system call", tracee_.tid().value);
  ending_ = Ending::entry_stop;
  Registers harmless = saved_;
  harmless.orig_rax = SYS_getpid;
  if (!tracee_.set_registers_if_alive(harmless)) return gone();
  return run_to_syscall_stop();
}

// When a thread returns to user mode outside the critical section that its rseq_cs names, the
// kernel clears rseq_cs (kernel/rseq.c); our calls do that. Without it the section that the program
// was interrupted in would go on instead of being aborted.
Status RemoteSyscalls::remember_rseq() {
  GuestAddr rseq;
  if (!tracee_.get_rseq_if_alive(rseq)) return gone();
  if (rseq == GuestAddr()) return {};
  const Result<uint64_t> section = memory_.read_value<uint64_t>(rseq + kRseqSectionOffset);
  if (!section || *section == 0) return {};
  rseq_ = rseq;
  rseq_section_ = *section;
  return {};
}

Status RemoteSyscalls::restore_rseq() {
  if (rseq_ == GuestAddr()) return {};
  return memory_.write_value(rseq_ + kRseqSectionOffset, rseq_section_);
}

// --- Calling

Status RemoteSyscalls::run_to_syscall_stop() {
  Result<WaitStatus> stop = run_.until(QuietRun::Resume::syscall, is_syscall_stop);
  if (stop) return {};
  if (stop.error().errno_value == ESRCH) state_ = State::lost;
  return tl::unexpected(std::move(stop.error()));
}

Result<int64_t> RemoteSyscalls::call_words(int64_t number, std::span<const uint64_t> arguments) {
  SP_TRY(begin());
  run_.forget_child();
  for (;;) {
    SP_ASSIGN(const int64_t result, call_once(number, arguments));
    if (result == machine::kRestartBlock) return -int64_t{EINTR};
    // The signal that is behind this is dealt with on the way to the next entry stop.
    if (!wants_restart(result)) return result;
  }
}

Result<int64_t> RemoteSyscalls::call_once(int64_t number, std::span<const uint64_t> arguments) {
  Registers registers = saved_;
  registers.set_pc(syscall_insn_);
  if (escape_) escape_->set_out(registers);
  registers.rax = static_cast<uint64_t>(number);
  // Forgets a restart that is pending, which would otherwise change rip.
  registers.orig_rax = machine::kNoSyscall;
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.r10 = arguments[3];
  registers.r8 = arguments[4];
  registers.r9 = arguments[5];
  registers.eflags &= ~machine::flags::kTrap;
  if (!tracee_.set_registers_if_alive(registers)) return gone();

  const auto stopped_at_insn = [this](const WaitStatus& stop) {
    if (is_syscall_stop(stop)) return true;
    siginfo_t info{};
    Registers now{};
    return stop.kind() == Kind::signal_stop && tracee_.get_siginfo_if_alive(info) &&
           tracee_.get_registers_if_alive(now) && is_raised_at(syscall_insn_, info, now);
  };
  Result<WaitStatus> entry = run_.until(QuietRun::Resume::syscall, stopped_at_insn);
  if (!entry) {
    if (entry.error().errno_value == ESRCH) state_ = State::lost;
    return tl::unexpected(std::move(entry.error()));
  }
  if (!tracee_.get_registers_if_alive(registers)) return gone();
  if (!is_syscall_stop(*entry) || registers.orig_rax != static_cast<uint64_t>(number) ||
      registers.pc() != syscall_insn_ + machine::kSyscallInsnBytes) {
    return fail("there is no system call instruction at {:#x} of process {} ({} at {:#x})",
                syscall_insn_.value, tracee_.tid().value, to_string(*entry), registers.rip);
  }
  SP_TRY(run_to_syscall_stop());
  if (!tracee_.get_registers_if_alive(registers)) return gone();
  return static_cast<int64_t>(registers.rax);
}

// --- Ending

Result<WaitStatus> RemoteSyscalls::finish() {
  if (state_ == State::lost) return gone();
  if (state_ == State::active) {
    state_ = State::finished;
    Status ended = end();
    if (heir_) heir_->insert(heir_->end(), deferred_.begin(), deferred_.end());
    if (!resume_filters()) return gone();
    if (!ended) {
      state_ = State::lost;
      return tl::unexpected(std::move(ended.error()));
    }
  }
  state_ = State::finished;
  WaitStatus stop;
  if (!tracee_.current_stop_if_alive(stop)) return gone();
  return stop;
}

Status RemoteSyscalls::end() {
  SP_TRY(restore_rseq());
  if (ending_ == Ending::entry_stop) {
    SP_TRY(end_at_entry_stop());
    return restore_dispatch();
  }
  SP_TRY(restore_dispatch());
  if (!tracee_.set_signal_mask_if_alive(saved_mask_)) return gone();
  if (ending_ == Ending::signal_stop) return end_at_signal_stop();
  if (!tracee_.set_registers_if_alive(saved_)) return gone();
  // Its memory is below the red zone: that it could not be put back is no reason to leave the
  // thread in the middle of a restart.
  const Status taken_out = escape_ ? escape_->take_out(memory_) : Status{};
  const bool inside_signal_code_needed =
      ending_ == Ending::trap_stop || run_.saw_trap() || saved_.restart_pending();
  if (inside_signal_code_needed) SP_TRY(end_at_trap_stop());
  return taken_out;
}

Status RemoteSyscalls::suspend_dispatch() {
  if (!tracee_.get_user_dispatch_if_alive(dispatch_)) return gone();
  if (dispatch_.mode == 0 || tracee_.set_user_dispatch_if_alive({})) return {};
  return gone();
}

Status RemoteSyscalls::restore_dispatch() {
  if (dispatch_.mode == 0 || tracee_.set_user_dispatch_if_alive(dispatch_)) return {};
  return gone();
}

Status RemoteSyscalls::end_at_trap_stop() {
  if (!tracee_.interrupt_if_alive()) return gone();
  // The kernel looks for a trap before it takes a signal from the queue (kernel/signal.c,
  // get_signal), so this is the very next stop.
  SP_TRY(run_.until(QuietRun::Resume::cont, is_trap_stop));
  return {};
}

Status RemoteSyscalls::end_at_signal_stop() {
  // The signal was let in by the temporary mask of epoll_pwait or the like, which our first call
  // ended. The kernel will queue it again; so the call must start over, to be interrupted again.
  if ((saved_mask_ & mask_of(stop_info_.si_signo)) != 0)
    (void)conceal_interruption(tracee_, saved_);
  if (!tracee_.set_registers_if_alive(saved_)) return gone();
  SP_TRY(bring_to_signal_stop(tracee_, stop_info_, deferred_));
  if (run_.saw_trap() && !tracee_.interrupt_if_alive()) return gone();
  return {};
}

Status RemoteSyscalls::end_at_entry_stop() {
  Registers again = saved_;
  again.rip -= machine::kSyscallInsnBytes;
  again.rax = saved_.orig_rax;
  again.orig_rax = machine::kNoSyscall;
  if (!tracee_.set_registers_if_alive(again)) return gone();
  SP_TRY(run_to_syscall_stop());
  // Only now, so that no signal comes between.
  if (!tracee_.set_registers_if_alive(saved_) || !tracee_.set_signal_mask_if_alive(saved_mask_)) {
    return gone();
  }
  if (run_.saw_trap() && !tracee_.interrupt_if_alive()) return gone();
  return {};
}

// --- Conveniences

namespace {

Status status_of(const Result<int64_t>& result, const char* what, Tid tid) {
  if (!result) return tl::unexpected(result.error());
  if (*result < 0) {
    return fail_errno(static_cast<int>(-*result), "{} in process {}", what, tid.value);
  }
  return {};
}

}  // namespace

Result<GuestAddr> RemoteSyscalls::mmap(GuestAddr at, uint64_t bytes, int protection, int flags,
                                       int fd, uint64_t offset) {
  const Result<int64_t> result = call(SYS_mmap, at, bytes, protection, flags, fd, offset);
  SP_TRY(status_of(result, "mmap", tracee_.tid()));
  return GuestAddr(static_cast<uint64_t>(*result));
}

Status RemoteSyscalls::munmap(GuestAddr at, uint64_t bytes) {
  return status_of(call(SYS_munmap, at, bytes), "munmap", tracee_.tid());
}

Status RemoteSyscalls::mprotect(GuestAddr at, uint64_t bytes, int protection) {
  return status_of(call(SYS_mprotect, at, bytes, protection), "mprotect", tracee_.tid());
}

Status RemoteSyscalls::madvise(GuestAddr at, uint64_t bytes, int advice) {
  return status_of(call(SYS_madvise, at, bytes, advice), "madvise", tracee_.tid());
}

Status RemoteSyscalls::close(int fd) {
  return status_of(call(SYS_close, fd), "close", tracee_.tid());
}

Status RemoteSyscalls::with_bytes_on_stack(std::span<uint8_t> bytes,
                                           const std::function<Status(GuestAddr)>& use) {
  SP_TRY(begin());
  const uint64_t top = escape_ ? escape_->bottom().value : saved_.rsp - machine::kRedZoneBytes;
  const GuestAddr at{(top - bytes.size()) & ~uint64_t{15}};
  std::vector<uint8_t> before(bytes.size());
  SP_TRY(memory_.read(at, before));
  SP_TRY(memory_.write(at, bytes));
  Status used = use(at);
  // What the kernel wrote there is the caller's answer.
  Status read_back = used ? memory_.read(at, bytes) : Status{};
  const Status restored = memory_.write(at, before);
  SP_TRY(used);
  SP_TRY(read_back);
  return restored;
}

Result<int> RemoteSyscalls::openat(int directory, const std::string& path, int flags,
                                   unsigned mode) {
  std::vector<uint8_t> bytes(path.begin(), path.end());
  bytes.push_back(0);
  Result<int64_t> result = 0;
  SP_TRY(with_bytes_on_stack(bytes, [&](GuestAddr at) -> Status {
    result = call(SYS_openat, directory, at, flags, mode);
    return status_of(result, "openat", tracee_.tid());
  }));
  return static_cast<int>(*result);
}

Result<RemoteSigaction> RemoteSyscalls::rt_sigaction(int signal, const RemoteSigaction& action) {
  RemoteSigaction both[2] = {action, {}};
  const std::span<uint8_t> bytes{reinterpret_cast<uint8_t*>(both), sizeof both};
  SP_TRY(with_bytes_on_stack(bytes, [&](GuestAddr at) {
    return status_of(call(SYS_rt_sigaction, signal, at, at + sizeof action, sizeof action.mask),
                     "rt_sigaction", tracee_.tid());
  }));
  return both[1];
}

Result<RemoteSigaction> RemoteSyscalls::get_sigaction(int signal) {
  RemoteSigaction action;
  const std::span<uint8_t> bytes{reinterpret_cast<uint8_t*>(&action), sizeof action};
  SP_TRY(with_bytes_on_stack(bytes, [&](GuestAddr at) {
    return status_of(call(SYS_rt_sigaction, signal, 0, at, sizeof action.mask), "rt_sigaction",
                     tracee_.tid());
  }));
  return action;
}

Result<GuestAddr> find_syscall_instruction(std::span<const GuestRange> executable,
                                           RemoteMemory& memory) {
  if (const auto found = find_bytes(executable, memory, kInsn)) return *found;
  return fail("process {} has no system call instruction in its executable memory",
              memory.tid().value);
}

bool is_syscall_instruction(GuestAddr at, std::span<const GuestRange> executable,
                            RemoteMemory& memory) {
  return has_bytes_at(at, executable, memory, kInsn);
}

}  // namespace shadowprof::ptrace
