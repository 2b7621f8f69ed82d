// SPDX-License-Identifier: MIT
#include "ptrace/interruption.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <utility>

#include "kernel/proc.h"
#include "ptrace/filters.h"
#include "ptrace/sleep_timeout.h"

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

// Some of what it waits for has come, and is still there.
bool is_cut_peek(const machine::Registers& registers) {
  constexpr uint64_t kFlags = MSG_PEEK | MSG_WAITALL;
  const auto seen = static_cast<int64_t>(registers.rax);
  return registers.orig_rax == SYS_recvfrom && (registers.r10 & kFlags) == kFlags && seen > 0 &&
         static_cast<uint64_t>(seen) < registers.rdx;
}

// The kernel alone knows what a call that is restart_syscall(2) itself is about.
bool is_continued_by_another_call(const machine::Registers& registers) {
  return registers.in_syscall() && static_cast<int64_t>(registers.rax) == machine::kRestartBlock &&
         registers.orig_rax != SYS_restart_syscall;
}

// For a sleep whose timeout is not known: what is bearable.
constexpr std::chrono::milliseconds kUnknownTimeout{100};
// Between two stops of a thread that does nothing but restart its call: that, and the second stop.
constexpr uint64_t kSleepsOfARestart = 2;

}  // namespace

bool conceal_interruption(Tracee thread, machine::Registers& registers) {
  if (is_continued_by_another_call(registers))
    return !lets_restart(thread, registers) && begin_sleep_anew(registers);
  const bool gives_up = registers.in_syscall() &&
                        static_cast<int64_t>(registers.rax) == -int64_t{EINTR} &&
                        sleeps_without_effect(registers.orig_rax);
  if (!gives_up && !is_cut_peek(registers)) return false;
  registers.rax = static_cast<uint64_t>(machine::kRestartNoHandler);
  return true;
}

bool begin_sleep_anew(machine::Registers& registers) {
  if (!is_continued_by_another_call(registers)) return false;
  registers.rax = static_cast<uint64_t>(machine::kRestartNoHandler);
  return true;
}

void RestartedCall::remember(const machine::Registers& registers) {
  if (!is_continued_by_another_call(registers)) return;
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

// The same: nothing has happened since the last time but that it was restarted.
SignalledSleep::Which SignalledSleep::note(const machine::Registers& registers, uint64_t sleeps) {
  const Clock::time_point now = Clock::now();
  const bool is_same = registers.rip == pc_ && registers.rsp == sp_ &&
                       registers.orig_rax == number_ && sleeps == sleeps_ + kSleepsOfARestart;
  pc_ = registers.rip;
  sp_ = registers.rsp;
  number_ = registers.orig_rax;
  sleeps_ = sleeps;
  last_ = now;
  if (!is_same) first_ = now;
  return is_same ? Which::same : Which::another;
}

bool SignalledSleep::conceal(Tracee thread, machine::Registers& registers, int signal) {
  machine::Registers concealed = registers;
  if (!conceal_interruption(thread, concealed)) return false;
  const auto status = kernel::read_status(thread.tid());
  const bool has_seen_some = is_cut_peek(registers);
  if (!status || (status->caught & mask_of(signal))) {
    pc_ = 0;  // its handler ends the call
    if (has_seen_some) return false;
  } else if (note(registers, status->sleeps) == Which::same) {
    const auto timeout = timeout_of(thread.tid(), registers);
    const auto so_far = last_ - first_;
    if (timeout && timeout->length && so_far >= *timeout->length) {
      pc_ = 0;  // the next such call is another one
      if (!has_seen_some) registers.rax = static_cast<uint64_t>(timeout->result);
      return true;
    }
    if (!timeout && so_far >= kUnknownTimeout) {
      pc_ = 0;
      const bool gives_up = static_cast<int64_t>(registers.rax) == -int64_t{EINTR};
      registers.rax = static_cast<uint64_t>(-int64_t{EINTR});
      return !gives_up;
    }
  }
  registers = concealed;
  return true;
}

}  // namespace shadowprof::ptrace
