// SPDX-License-Identifier: MIT
#include "ptrace/sleep_timeout.h"

#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "ptrace/borrow_fd.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::ptrace {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr SleepTimeout kForever{};

// struct io_uring_getevents_arg of linux/io_uring.h.
struct RingArguments {
  uint64_t mask;
  uint32_t mask_bytes;
  uint32_t min_wait_us;
  uint64_t timeout;
};
// A moment, and arguments that were registered, of io_uring_enter (not in Debian's header).
constexpr uint64_t kRingMoment = 1u << 5;
constexpr uint64_t kRingRegistered = 1u << 6;

SleepTimeout of_milliseconds(uint64_t word) {
  const auto length = static_cast<int>(word);
  return length < 0 ? kForever : SleepTimeout{milliseconds(length), 0};
}

// Such a sleep does not end, and is longer than a count of nanoseconds can say.
bool is_endless(seconds length) {
  return length > std::chrono::duration_cast<seconds>(nanoseconds::max()) - seconds(1);
}

// A struct timespec of the program; null: none.
std::optional<SleepTimeout> of_timespec(Tid thread, uint64_t address, int64_t result) {
  if (address == 0) return kForever;
  RemoteMemory memory(thread);
  const auto length = memory.read_value<timespec>(GuestAddr(address));
  if (!length) return std::nullopt;
  if (is_endless(seconds(length->tv_sec))) return kForever;
  return SleepTimeout{seconds(length->tv_sec) + nanoseconds(length->tv_nsec), result};
}

std::optional<SleepTimeout> of_ring(Tid thread, const machine::Registers& registers) {
  const uint64_t flags = registers.r10;
  if (!(flags & IORING_ENTER_EXT_ARG)) return kForever;
  if (flags & (kRingMoment | kRingRegistered)) return std::nullopt;
  RemoteMemory memory(thread);
  const auto arguments = memory.read_value<RingArguments>(GuestAddr(registers.r8));
  if (!arguments) return std::nullopt;
  return of_timespec(thread, arguments->timeout, -int64_t{ETIME});
}

std::optional<SleepTimeout> of_futex(Tid thread, const machine::Registers& registers) {
  const bool is_relative = (static_cast<int>(registers.rsi) & FUTEX_CMD_MASK) == FUTEX_WAIT;
  return is_relative ? of_timespec(thread, registers.r10, -int64_t{ETIMEDOUT}) : kForever;
}

// SO_RCVTIMEO or SO_SNDTIMEO of one that the program has open.
std::optional<SleepTimeout> of_socket(Tid thread, uint64_t number, int option) {
  const auto socket = borrow_fd(thread, static_cast<int>(number));
  timeval length{};
  socklen_t bytes = sizeof length;
  if (!socket || ::getsockopt(socket->get(), SOL_SOCKET, option, &length, &bytes) != 0)
    return std::nullopt;
  if (is_endless(seconds(length.tv_sec))) return kForever;
  const nanoseconds all = seconds(length.tv_sec) + microseconds(length.tv_usec);
  return all.count() == 0 ? kForever : SleepTimeout{all, -int64_t{EAGAIN}};
}

}  // namespace

std::optional<SleepTimeout> timeout_of(Tid thread, const machine::Registers& registers) {
  switch (registers.orig_rax) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return of_milliseconds(registers.r10);
    case SYS_poll:
      return of_milliseconds(registers.rdx);
    case SYS_epoll_pwait2:
      return of_timespec(thread, registers.r10, 0);
    case SYS_semop:
      return kForever;
    case SYS_semtimedop:
      return of_timespec(thread, registers.r10, -int64_t{EAGAIN});
    case SYS_rt_sigtimedwait:
      return of_timespec(thread, registers.rdx, -int64_t{EAGAIN});
    case SYS_io_getevents:
    case SYS_io_pgetevents:
      return of_timespec(thread, registers.r8, 0);
    case SYS_io_uring_enter:
      return of_ring(thread, registers);
    case SYS_futex:
      return of_futex(thread, registers);
    case SYS_nanosleep:
      return of_timespec(thread, registers.rdi, 0);
    case SYS_clock_nanosleep:
      return registers.rsi & TIMER_ABSTIME ? kForever : of_timespec(thread, registers.rdx, 0);
    case SYS_accept:
    case SYS_accept4:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_read:
    case SYS_readv:
      return of_socket(thread, registers.rdi, SO_RCVTIMEO);
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_write:
    case SYS_writev:
      return of_socket(thread, registers.rdi, SO_SNDTIMEO);
    default:
      return std::nullopt;
  }
}

}  // namespace shadowprof::ptrace
