// SPDX-License-Identifier: MIT
#include "ptrace/deliver.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>

#include "base/check.h"
#include "kernel/proc.h"
#include "ptrace/quiet_run.h"
#include "ptrace/wait.h"

namespace shadowprof::ptrace {
namespace {

// Real-time signals: each instance is queued. While one travels, nearly all others are blocked.
// Those before are the C library's.
constexpr int kLastCarrier = 64, kFirstCarrier = 34;

// Differs from any cookie that a former or another instance of us used.
uint64_t new_cookie() {
  static std::atomic<uint64_t> next =
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) << 20;
  return next.fetch_add(1) ^ (static_cast<uint64_t>(::getpid()) << 48);
}

struct Carrier {
  Tid process;
  int signal;
};

// None that waits for the thread already: those before it in the queue would have to be given back
// to the thread like others, by a carrier, and so on.
Result<Carrier> carrier_to(Tid tid) {
  const auto status = kernel::read_status(tid);
  if (!status) return thread_is_gone(tid);
  int signal = kLastCarrier;
  while (signal > kFirstCarrier &&
         ((status->pending | status->shared_pending) & mask_of(signal)) != 0)
    signal--;
  return Carrier{status->tgid, signal};
}

Status send(const Carrier& carrier, Tid tid, uint64_t cookie) {
  siginfo_t info{};
  info.si_signo = carrier.signal;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(cookie);
  if (::syscall(SYS_rt_tgsigqueueinfo, carrier.process.value, tid.value, carrier.signal, &info) ==
      0)
    return {};
  if (errno == ESRCH) return thread_is_gone(tid);
  return fail_errno(errno, "cannot send a signal to thread {}", tid.value);
}

bool is_carrier(const siginfo_t& info, uint64_t cookie) {
  return info.si_code == SI_QUEUE && reinterpret_cast<uint64_t>(info.si_value.sival_ptr) == cookie;
}

}  // namespace

Status bring_to_signal_stop(Tracee tracee, const siginfo_t& info,
                            std::vector<siginfo_t>& deferred) {
  const Tid tid = tracee.tid();
  WaitStatus stop;
  Tracee::SyscallStopInfo syscall;
  if (!tracee.current_stop_if_alive(stop) || !tracee.get_syscall_stop_if_alive(syscall)) {
    return thread_is_gone(tid);
  }
  SP_CHECK(syscall.which != Tracee::SyscallStop::entry && !stop.is_event(StopEvent::vfork) &&
               !stop.is_event(StopEvent::exit) && !stop.is_event(StopEvent::seccomp),
           "no signal can be given to thread {} at its {}", tid.value, to_string(stop));
  siginfo_t stopped_for{};
  if (stop.kind() == WaitStatus::Kind::signal_stop && !tracee.get_siginfo_if_alive(stopped_for))
    return thread_is_gone(tid);
  if (stop.kind() != WaitStatus::Kind::signal_stop || is_step_into_handler(stopped_for)) {
    SP_ASSIGN(const Carrier carrier, carrier_to(tid));
    SignalMask mask = 0;
    if (!tracee.get_signal_mask_if_alive(mask) ||
        !tracee.set_signal_mask_if_alive(hold_signals(mask) & ~mask_of(carrier.signal))) {
      return thread_is_gone(tid);
    }
    const uint64_t cookie = new_cookie();
    QuietRun run(tracee, deferred);
    const Status sent = send(carrier, tid, cookie);
    if (sent) {
      const auto arrived = [&](const WaitStatus& status) {
        siginfo_t found{};
        return status.is_signal_stop(carrier.signal) && tracee.get_siginfo_if_alive(found) &&
               is_carrier(found, cookie);
      };
      SP_TRY(run.until(QuietRun::Resume::cont, arrived));
    }
    if (!tracee.set_signal_mask_if_alive(mask)) return thread_is_gone(tid);
    SP_TRY(sent);
    if (run.saw_trap() && !tracee.interrupt_if_alive()) return thread_is_gone(tid);
  }
  if (!tracee.set_siginfo_if_alive(info)) return thread_is_gone(tid);
  return {};
}

namespace {

// Delivers the signal that the thread is stopped for. It executes nothing before the interrupt
// stops it again. Returns whether it is in a group stop then.
Result<bool> deliver_and_stop(Tracee tracee, int signal) {
  if (!tracee.interrupt_if_alive() || !tracee.cont_if_alive(signal))
    return thread_is_gone(tracee.tid());
  SP_ASSIGN(const WaitStatus stop, wait_for_stop(tracee.tid()));
  if (!stop.is_trap()) return thread_is_gone(tracee.tid());  // it was killed by the signal
  return stop.kind() == WaitStatus::Kind::group_stop;
}

}  // namespace

Result<int> give_back(Tracee tracee, int stopped_for, std::vector<siginfo_t> deferred) {
  int signal = stopped_for;
  bool group_stop = false;
  while (!deferred.empty()) {
    if (signal != 0) {
      SP_ASSIGN(const bool stopped, deliver_and_stop(tracee, signal));
      group_stop |= stopped;
    }
    const siginfo_t next = deferred.front();
    deferred.erase(deferred.begin());
    SP_TRY(bring_to_signal_stop(tracee, next, deferred));
    signal = next.si_signo;
  }
  // It is reported again.
  if (group_stop && !tracee.interrupt_if_alive()) return thread_is_gone(tracee.tid());
  return signal;
}

}  // namespace shadowprof::ptrace
