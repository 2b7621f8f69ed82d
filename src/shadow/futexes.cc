// SPDX-License-Identifier: MIT
#include "shadow/futexes.h"

#include <linux/futex.h>

#include <algorithm>
#include <cerrno>

namespace shadowprof::shadow {
namespace {

// The calls' numbers, and what they are given (linux/futex.h of later systems than ours).
constexpr long kWaitv = 449;
constexpr long kWake = 454;
constexpr long kWait = 455;
constexpr long kRequeue = 456;
constexpr uint64_t kOf32Bits = 2;  // FUTEX2_SIZE_U32
constexpr uint64_t kPrivate = 128;
constexpr uint64_t kMostOfList = 128;  // FUTEX_WAITV_MAX

struct Listed {  // struct futex_waitv
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};

bool is_plain(uint64_t flags) {
  return (flags & ~kPrivate) == kOf32Bits;
}

}  // namespace

std::optional<Futexes::Answer> Futexes::call(GuestThread& thread,
                                             const std::array<uint64_t, 6>& arguments) {
  const GuestAddr address(arguments[0]);
  const GuestAddr other(arguments[4]);
  const auto value = static_cast<uint32_t>(arguments[2]);
  const auto count = static_cast<int64_t>(static_cast<int32_t>(arguments[2]));
  const auto bits = static_cast<uint32_t>(arguments[5]);
  const bool has_timeout = arguments[3] != 0;
  switch (static_cast<int>(arguments[1]) & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
      return wait(thread, address, value, FUTEX_BITSET_MATCH_ANY, has_timeout);
    case FUTEX_WAIT_BITSET:
      return wait(thread, address, value, bits, has_timeout);
    case FUTEX_WAKE:
      return Answer{false, wake(address, count, FUTEX_BITSET_MATCH_ANY)};
    case FUTEX_WAKE_BITSET:
      return Answer{false, wake(address, count, bits)};
    case FUTEX_CMP_REQUEUE: {
      const auto now = memory_.read_value<uint32_t>(address);
      if (!now) return Answer{false, -EFAULT};
      if (*now != static_cast<uint32_t>(arguments[5])) return Answer{false, -EAGAIN};
      [[fallthrough]];
    }
    case FUTEX_REQUEUE:
      return Answer{false, requeue(address, count, static_cast<int64_t>(arguments[3]), other)};
    default:
      return std::nullopt;
  }
}

std::optional<Futexes::Answer> Futexes::call_of_its_own(GuestThread& thread, long nr,
                                                        const std::array<uint64_t, 6>& arguments) {
  const GuestAddr address(arguments[0]);
  switch (nr) {
    case kWake:
      if (!is_plain(arguments[3])) return std::nullopt;
      return Answer{false, wake(address, static_cast<int32_t>(arguments[2]),
                                static_cast<uint32_t>(arguments[1]))};
    case kWait:
      if (!is_plain(arguments[3])) return std::nullopt;
      return wait(thread, address, static_cast<uint32_t>(arguments[1]),
                  static_cast<uint32_t>(arguments[2]), arguments[4] != 0);
    case kRequeue:
      if (arguments[1] != 0) return std::nullopt;
      return requeue_listed(address, static_cast<int32_t>(arguments[2]),
                            static_cast<int32_t>(arguments[3]));
    case kWaitv:
      if (arguments[2] != 0) return std::nullopt;
      return wait_for_any(thread, address, arguments[1], arguments[3] != 0);
    default:
      return std::nullopt;
  }
}

std::optional<Futexes::Answer> Futexes::wait_for_any(GuestThread& thread, GuestAddr list,
                                                     uint64_t count, bool has_timeout) {
  if (count == 0 || count > kMostOfList) return Answer{false, -EINVAL};
  std::vector<GuestAddr> all;
  for (uint64_t i = 0; i < count; i++) {
    const auto one = memory_.read_value<Listed>(list + i * sizeof(Listed));
    if (!one) return Answer{false, -EFAULT};
    if (!is_plain(one->flags) || one->reserved != 0) return std::nullopt;
    const auto now = memory_.read_value<uint32_t>(GuestAddr(one->address));
    if (!now) return Answer{false, -EFAULT};
    if (*now != one->value) return Answer{false, -EAGAIN};
    all.push_back(GuestAddr(one->address));
  }
  thread.state = GuestThread::State::waiting;
  thread.futexes = std::move(all);
  thread.futex_bits = FUTEX_BITSET_MATCH_ANY;
  thread.has_timeout = has_timeout;
  return Answer{true, 0};
}

std::optional<Futexes::Answer> Futexes::requeue_listed(GuestAddr list, int64_t wake_count,
                                                       int64_t move_count) {
  const auto both = memory_.read_value<std::array<Listed, 2>>(list);
  if (!both) return Answer{false, -EFAULT};
  const auto& [from, to] = *both;
  if (!is_plain(from.flags) || !is_plain(to.flags)) return std::nullopt;
  const auto now = memory_.read_value<uint32_t>(GuestAddr(from.address));
  if (!now) return Answer{false, -EFAULT};
  if (*now != from.value) return Answer{false, -EAGAIN};
  return Answer{false,
                requeue(GuestAddr(from.address), wake_count, move_count, GuestAddr(to.address))};
}

Futexes::Answer Futexes::wait(GuestThread& thread, GuestAddr address, uint32_t expected,
                              uint32_t bits, bool has_timeout) {
  const auto now = memory_.read_value<uint32_t>(address);
  if (!now) return {false, -EFAULT};
  if (*now != expected) return {false, -EAGAIN};
  thread.state = GuestThread::State::waiting;
  thread.futexes = {address};
  thread.futex_bits = bits;
  thread.has_timeout = has_timeout;
  return {true, 0};
}

int64_t Futexes::wake(GuestAddr address, int64_t count, uint32_t bits) {
  int64_t woken = 0;
  for (const auto& t : threads_) {
    if (woken >= count) break;
    if (t->state != GuestThread::State::waiting || (t->futex_bits & bits) == 0) continue;
    const auto which = std::find(t->futexes.begin(), t->futexes.end(), address);
    if (which == t->futexes.end()) continue;
    t->state = GuestThread::State::runnable;
    t->registers.rax = static_cast<uint64_t>(which - t->futexes.begin());
    woken++;
  }
  return woken;
}

int64_t Futexes::requeue(GuestAddr from, int64_t wake_count, int64_t move_count, GuestAddr to) {
  int64_t affected = wake(from, wake_count, FUTEX_BITSET_MATCH_ANY);
  for (const auto& t : threads_) {
    if (move_count <= 0) break;
    if (t->state != GuestThread::State::waiting) continue;
    const auto which = std::find(t->futexes.begin(), t->futexes.end(), from);
    if (which == t->futexes.end()) continue;
    *which = to;
    move_count--;
    affected++;
  }
  return affected;
}

}  // namespace shadowprof::shadow
