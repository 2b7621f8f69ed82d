// SPDX-License-Identifier: MIT
#include "inject/fixed/timed_wait.h"

#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace shadowprof::inject {
namespace {

using machine::Registers;
using machine::VirtualClock;

constexpr uint64_t kMillisecond_ns = 1'000'000;
constexpr unsigned kFutexWaitv = 449;
constexpr unsigned kFutexWait = 455;  // since Linux 6.7
constexpr unsigned kFutexLockPi2 = 13;

enum class Unit : uint8_t { milliseconds, timespec, timeval, ring };
enum class Argument : uint8_t { rdi, rsi, rdx, r10, r8 };
enum class Tells : uint8_t { end, nothing };

struct WaitRow {
  unsigned number;
  Argument timeout;
  Unit unit;
  int64_t result;  // when it is over
  Tells result_tells = Tells::end;
};

// struct io_uring_getevents_arg.
struct RingArguments {
  uint64_t mask;
  uint64_t mask_bytes;  // and the least wait, which stays real
  uint64_t timeout;
};
// Flags of io_uring_enter(2) that Debian's header does not have: the timeout is a moment; the
// arguments are registered.
constexpr uint64_t kRingMoment = 1u << 5;
constexpr uint64_t kRingRegistered = 1u << 6;

constexpr WaitRow kWaitRows[] = {
    {SYS_nanosleep, Argument::rdi, Unit::timespec, 0},
    {SYS_clock_nanosleep, Argument::rdx, Unit::timespec, 0},
    {SYS_poll, Argument::rdx, Unit::milliseconds, 0},
    {SYS_ppoll, Argument::rdx, Unit::timespec, 0},
    {SYS_select, Argument::r8, Unit::timeval, 0},
    {SYS_pselect6, Argument::r8, Unit::timespec, 0},
    {SYS_epoll_wait, Argument::r10, Unit::milliseconds, 0},
    {SYS_epoll_pwait, Argument::r10, Unit::milliseconds, 0},
    {SYS_epoll_pwait2, Argument::r10, Unit::timespec, 0},
    {SYS_futex, Argument::r10, Unit::timespec, -ETIMEDOUT},
    {kFutexWaitv, Argument::r10, Unit::timespec, -ETIMEDOUT},
    {kFutexWait, Argument::r8, Unit::timespec, -ETIMEDOUT},
    {SYS_rt_sigtimedwait, Argument::rdx, Unit::timespec, -EAGAIN},
    {SYS_semtimedop, Argument::r10, Unit::timespec, -EAGAIN},
    {SYS_mq_timedsend, Argument::r8, Unit::timespec, -ETIMEDOUT},
    {SYS_mq_timedreceive, Argument::r8, Unit::timespec, -ETIMEDOUT},
    {SYS_io_getevents, Argument::r8, Unit::timespec, 0, Tells::nothing},
    {SYS_io_pgetevents, Argument::r8, Unit::timespec, 0, Tells::nothing},
    {SYS_io_uring_enter, Argument::r8, Unit::ring, -ETIME, Tells::nothing},
};

const WaitRow* row_of(const Registers& regs) {
  const auto number = static_cast<int>(regs.rax);
  const auto* it = std::ranges::find_if(
      kWaitRows, [&](const WaitRow& row) { return static_cast<int>(row.number) == number; });
  return it == std::end(kWaitRows) ? nullptr : it;
}

unsigned long long& argument(Registers& regs, Argument which) {
  switch (which) {
    case Argument::rdi:
      return regs.rdi;
    case Argument::rsi:
      return regs.rsi;
    case Argument::rdx:
      return regs.rdx;
    case Argument::r10:
      return regs.r10;
    case Argument::r8:
      break;
  }
  return regs.r8;
}

uint64_t value_of(const Registers& regs, Argument which) {
  Registers copy = regs;
  return argument(copy, which);
}

// The operation is an int.
uint32_t futex_command(const Registers& regs) {
  return static_cast<uint32_t>(regs.rsi) & static_cast<uint32_t>(FUTEX_CMD_MASK);
}

bool has_timeout(const WaitRow& row, const Registers& regs) {
  if (row.number == SYS_io_uring_enter) {
    constexpr uint64_t kWanted = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
    return (regs.r10 & (kWanted | kRingRegistered)) == kWanted && regs.r9 == sizeof(RingArguments);
  }
  if (row.number != SYS_futex) return true;
  switch (futex_command(regs)) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_WAIT_REQUEUE_PI:
    case kFutexLockPi2:
      return true;
    default:
      return false;
  }
}

// The clock whose moment is waited for. Nothing: a length of time is.
std::optional<clockid_t> moment_clock(const WaitRow& row, const Registers& regs) {
  switch (row.number) {
    case SYS_clock_nanosleep:
      if ((regs.rsi & TIMER_ABSTIME) == 0) return std::nullopt;
      return static_cast<clockid_t>(regs.rdi);
    case SYS_futex: {
      const uint32_t command = futex_command(regs);
      if (command == FUTEX_WAIT) return std::nullopt;
      const bool is_date = command == FUTEX_LOCK_PI || (regs.rsi & FUTEX_CLOCK_REALTIME) != 0;
      return is_date ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    }
    case kFutexWaitv:
      return static_cast<clockid_t>(regs.r8);
    case kFutexWait:
      return static_cast<clockid_t>(regs.r9);
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
      return CLOCK_REALTIME;
    case SYS_io_uring_enter:
      if ((regs.r10 & kRingMoment) == 0) return std::nullopt;
      return CLOCK_MONOTONIC;
    default:
      return std::nullopt;
  }
}

// Nothing: the kernel refuses it, or it is no timeout.
std::optional<uint64_t> time_at(const WaitRow& row, uint64_t value, ptrace::RemoteMemory& memory) {
  if (row.unit == Unit::milliseconds) {
    const auto milliseconds = static_cast<int>(value);
    if (milliseconds < 0) return std::nullopt;
    return static_cast<uint64_t>(milliseconds) * kMillisecond_ns;
  }
  if (row.unit == Unit::ring)
    value = memory.read_argument<RingArguments>(GuestAddr(value)).value_or(RingArguments{}).timeout;
  if (value == 0) return std::nullopt;
  const auto time = memory.read_argument<timespec>(GuestAddr(value));
  if (!time) return std::nullopt;
  const bool is_micro = row.unit == Unit::timeval;
  const long most = is_micro ? LONG_MAX / 1000 : 999'999'999;
  if (time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec > most) return std::nullopt;
  return machine::nanoseconds_of({time->tv_sec, 0}) +
         static_cast<uint64_t>(time->tv_nsec) * (is_micro ? 1000 : 1);
}

std::array<uint64_t, 2> words_at(ptrace::RemoteMemory& memory, uint64_t address) {
  return memory.read_argument<std::array<uint64_t, 2>>(GuestAddr(address))
      .value_or(std::array<uint64_t, 2>{});
}

bool is_processor_time(clockid_t clock) {
  return clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
}

uint64_t real_ns(clockid_t clock) {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return machine::nanoseconds_of(now);
}

}  // namespace

std::span<const unsigned> timed_calls() {
  static const auto numbers = [] {
    std::array<unsigned, std::size(kWaitRows)> all{};
    std::ranges::transform(kWaitRows, all.begin(), [](const WaitRow& row) { return row.number; });
    return all;
  }();
  return numbers;
}

std::optional<TimedWait> TimedWait::of(const Registers& regs, ptrace::RemoteMemory& memory,
                                       const VirtualClock& clock) {
  const WaitRow* row = row_of(regs);
  if (row == nullptr || !has_timeout(*row, regs)) return std::nullopt;
  if (row->number == SYS_clock_nanosleep && is_processor_time(static_cast<clockid_t>(regs.rdi)))
    return std::nullopt;
  const uint64_t value = value_of(regs, row->timeout);
  const auto time_ns = time_at(*row, value, memory);
  if (!time_ns) return std::nullopt;
  TimedWait wait;
  wait.before_ = regs;
  wait.result_ = row->result;
  wait.result_tells_ = row->result_tells == Tells::end;
  wait.until_ns_ = clock.now_ns() + *time_ns;
  if (const auto of_clock = moment_clock(*row, regs)) {
    const auto elapsed = clock.elapsed_at(*of_clock, machine::timespec_of(*time_ns));
    if (!elapsed) return std::nullopt;
    wait.is_moment_ = true;
    wait.clock_ = *of_clock;
    wait.until_ns_ = *elapsed;
  }
  switch (row->number) {
    case SYS_nanosleep:
      wait.remainder_ = Remainder::when_interrupted;
      wait.remainder_at_ = GuestAddr(regs.rsi);
      break;
    case SYS_clock_nanosleep:
      if (!wait.is_moment_) wait.remainder_ = Remainder::when_interrupted;
      wait.remainder_at_ = GuestAddr(regs.r10);
      break;
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
      wait.remainder_ = Remainder::always;
      wait.remainder_at_ = GuestAddr(value);
      wait.given_ = words_at(memory, value);
      break;
    case SYS_io_uring_enter:
      wait.given_ = words_at(memory, value);
      break;
    default:
      break;
  }
  return wait;
}

TimedWait TimedWait::on_socket(const Registers& regs, uint64_t length_ns,
                               const VirtualClock& clock) {
  TimedWait wait;
  wait.before_ = regs;
  wait.result_ = -EAGAIN;
  wait.result_tells_ = false;
  wait.until_ns_ = clock.now_ns() + length_ns;
  return wait;
}

// The arguments in `room`, with the timeout that lies there.
void TimedWait::give_ring(Registers& regs, const Room& room, GuestAddr timeout) const {
  room.words[0] = given_[0];
  room.words[1] = given_[1];
  room.words[2] = timeout.value;
  regs.r8 = room.address.value;
  regs.r10 &= ~kRingMoment;
}

void TimedWait::wait_really(Registers& regs, const VirtualClock& clock,
                            const Room& room) const {
  if (!is_moment_) return;
  if (row_of(before_)->unit == Unit::ring) return give_ring(regs, room, room.nothing);
  const uint64_t left_ns = until_ns_ > clock.now_ns() ? until_ns_ - clock.now_ns() : 0;
  const timespec moment = machine::timespec_of(real_ns(clock_) + left_ns);
  room.words[0] = static_cast<uint64_t>(moment.tv_sec);
  room.words[1] = static_cast<uint64_t>(moment.tv_nsec);
  argument(regs, row_of(before_)->timeout) = room.address.value;
}

bool TimedWait::waits(const VirtualClock& clock) const {
  return until_ns_ > clock.now_ns();
}

void TimedWait::wait_endlessly(Registers& regs, const Room& room) {
  constexpr int64_t kLong_s = 1'000'000'000;
  is_endless_ = true;
  const WaitRow* found = row_of(before_);
  if (found == nullptr) return;  // the socket's
  const WaitRow& row = *found;
  if (row.unit == Unit::ring) return give_ring(regs, room, GuestAddr());
  uint64_t timeout = 0;  // a null pointer
  if (row.unit == Unit::milliseconds) timeout = static_cast<uint32_t>(-1);
  if (row.number == SYS_nanosleep || row.number == SYS_clock_nanosleep) {
    room.words[0] = kLong_s;
    room.words[1] = 0;
    timeout = room.address.value;
  }
  if (row.number == SYS_clock_nanosleep) {
    regs.rsi &= ~uint64_t{TIMER_ABSTIME};
    if (is_moment_) regs.r10 = 0;
  }
  argument(regs, row.timeout) = timeout;
}

void TimedWait::finish(Registers& regs, ptrace::RemoteMemory& memory,
                       VirtualClock& clock) const {
  regs.rdi = before_.rdi;
  regs.rsi = before_.rsi;
  regs.rdx = before_.rdx;
  regs.r10 = before_.r10;
  regs.r8 = before_.r8;
  const auto result = static_cast<int64_t>(regs.rax);
  const bool is_over = result_tells_ && result == result_;
  if (is_over) clock.sleep_until(until_ns_);
  if (remainder_ == Remainder::always && !is_over) (void)memory.write_value(remainder_at_, given_);
  if (remainder_ == Remainder::always && is_over && is_endless_)
    (void)memory.write_value(remainder_at_, std::array<uint64_t, 2>{});
  const bool is_interrupted = result == -EINTR || result == machine::kRestartBlock;
  if (remainder_ == Remainder::when_interrupted && is_interrupted && remainder_at_.value != 0) {
    const uint64_t left_ns = until_ns_ > clock.now_ns() ? until_ns_ - clock.now_ns() : 0;
    (void)memory.write_value(remainder_at_, machine::timespec_of(left_ns));
  }
}

}  // namespace shadowprof::inject
