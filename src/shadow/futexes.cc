// SPDX-License-Identifier: MIT
#include "shadow/futexes.h"

#include <linux/futex.h>

#include <cerrno>

namespace shadowprof::shadow {

std::optional<Futexes::Answer> Futexes::call(GuestThread& thread, const std::array<uint64_t, 6>& arguments) {
  const GuestAddr address(arguments[0]);
  const GuestAddr other(arguments[4]);
  const auto value = static_cast<uint32_t>(arguments[2]);
  const auto count = static_cast<int64_t>(static_cast<int32_t>(arguments[2]));
  const auto bits = static_cast<uint32_t>(arguments[5]);
  const bool has_timeout = arguments[3] != 0;
  switch (arguments[1] & FUTEX_CMD_MASK) {
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

Futexes::Answer Futexes::wait(GuestThread& thread, GuestAddr address, uint32_t expected,
                              uint32_t bits, bool has_timeout) {
  const auto now = memory_.read_value<uint32_t>(address);
  if (!now) return {false, -EFAULT};
  if (*now != expected) return {false, -EAGAIN};
  thread.state = GuestThread::State::waiting;
  thread.futex = address;
  thread.futex_bits = bits;
  thread.has_timeout = has_timeout;
  return {true, 0};
}

int64_t Futexes::wake(GuestAddr address, int64_t count, uint32_t bits) {
  int64_t woken = 0;
  for (const auto& t : threads_) {
    if (woken >= count) break;
    if (t->state != GuestThread::State::waiting || t->futex != address) continue;
    if ((t->futex_bits & bits) == 0) continue;
    t->state = GuestThread::State::runnable;
    t->registers.rax = 0;
    woken++;
  }
  return woken;
}

int64_t Futexes::requeue(GuestAddr from, int64_t wake_count, int64_t move_count, GuestAddr to) {
  int64_t affected = wake(from, wake_count, FUTEX_BITSET_MATCH_ANY);
  for (const auto& t : threads_) {
    if (move_count <= 0) break;
    if (t->state != GuestThread::State::waiting || t->futex != from) continue;
    t->futex = to;
    move_count--;
    affected++;
  }
  return affected;
}

}  // namespace shadowprof::shadow
