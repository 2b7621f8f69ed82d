// SPDX-License-Identifier: MIT
#include "ptrace/interruption.h"

#include <sys/syscall.h>

#include <cerrno>

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

}  // namespace

bool conceal_interruption(machine::Registers& registers) {
  if (!registers.in_syscall() || static_cast<int64_t>(registers.rax) != -int64_t{EINTR} ||
      !sleeps_without_effect(registers.orig_rax)) {
    return false;
  }
  registers.rax = static_cast<uint64_t>(machine::kRestartNoHandler);
  return true;
}

}  // namespace shadowprof::ptrace
