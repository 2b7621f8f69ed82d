// SPDX-License-Identifier: MIT
#include "ptrace/interruption.h"

#include <sys/syscall.h>

#include <cerrno>
#include <utility>

#include "ptrace/filters.h"

namespace shadowprof::ptrace {
namespace {

// Those that return a plain EINTR without having had an effect. On sockets it is that only with
// SO_RCVTIMEO or SO_SNDTIMEO (net/core, sock_intr_errno); connect is missing because it has begun
// to connect.
bool sleeps_without_effect(uint64_t number) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
    case SYS_accept:
    case SYS_accept4:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_read:
    case SYS_readv:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_write:
    case SYS_writev:
      return true;
    default:
      return false;
  }
}

// For a sleep that says EINTR. Where the call's arguments do not tell, what is bearable.
std::chrono::milliseconds timeout_of(const machine::Registers& registers) {
  constexpr std::chrono::milliseconds kForever = std::chrono::hours(24);
  constexpr std::chrono::milliseconds kUnknown{100};
  switch (registers.orig_rax) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait: {
      const auto timeout = static_cast<int>(registers.r10);
      return timeout < 0 ? kForever : std::chrono::milliseconds(timeout);
    }
    case SYS_epoll_pwait2:
    case SYS_semtimedop:
      return registers.r10 == 0 ? kForever : kUnknown;
    case SYS_rt_sigtimedwait:
      return registers.rdx == 0 ? kForever : kUnknown;
    default:
      return kUnknown;
  }
}

}  // namespace

bool conceal_interruption(Tracee thread, machine::Registers& registers) {
  if (!registers.in_syscall()) return false;
  const auto result = static_cast<int64_t>(registers.rax);
  const bool gives_up = result == -int64_t{EINTR} && sleeps_without_effect(registers.orig_rax);
  // The kernel alone knows what a call that is restart_syscall(2) itself is about.
  const bool needs_another_call =
      result == machine::kRestartBlock && registers.orig_rax != SYS_restart_syscall;
  if (!gives_up && !(needs_another_call && !lets_restart(thread, registers))) return false;
  registers.rax = static_cast<uint64_t>(machine::kRestartNoHandler);
  return true;
}

void RestartedCall::remember(const machine::Registers& registers) {
  if (!registers.in_syscall() || static_cast<int64_t>(registers.rax) != machine::kRestartBlock ||
      registers.orig_rax == SYS_restart_syscall)
    return;
  pc_ = registers.rip;
  sp_ = registers.rsp;
  number_ = registers.orig_rax;
}

bool RestartedCall::conceal(Tracee thread, machine::Registers& registers) const {
  const bool is_it = static_cast<int64_t>(registers.rax) == machine::kRestartBlock &&
                     registers.orig_rax == SYS_restart_syscall && registers.rip == pc_ &&
                     registers.rsp == sp_;
  if (!is_it || lets_restart(thread, registers)) return false;
  registers.orig_rax = number_;
  registers.rax = static_cast<uint64_t>(machine::kRestartNoHandler);
  return true;
}

bool SignalledSleep::conceal(Tracee thread, machine::Registers& registers) {
  machine::Registers concealed = registers;
  if (!conceal_interruption(thread, concealed)) return false;
  const Clock::time_point now = Clock::now(), last = std::exchange(last_, now);
  const std::chrono::milliseconds timeout = timeout_of(registers);
  if (registers.rip != pc_ || registers.rsp != sp_ || now - last >= timeout) {
    pc_ = registers.rip;
    sp_ = registers.rsp;
    first_ = now;
  } else if (now - first_ >= timeout) {
    pc_ = sp_ = 0;
    const bool gives_up = static_cast<int64_t>(registers.rax) == -int64_t{EINTR};
    registers.rax = static_cast<uint64_t>(-int64_t{EINTR});
    return !gives_up;
  }
  registers = concealed;
  return true;
}

}  // namespace shadowprof::ptrace
