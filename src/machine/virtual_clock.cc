// SPDX-License-Identifier: MIT
#include "machine/virtual_clock.h"

#include <algorithm>

namespace shadowprof::machine {
namespace {

constexpr uint64_t kSecond_ns = 1'000'000'000;
constexpr int64_t kMost_s = int64_t{1} << 33;

// What the clock says at the begin, in seconds.
std::optional<int64_t> begin_of(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
      return VirtualClock::kBegin_s;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
      return int64_t{kUptimeSeconds};
    default:
      return std::nullopt;
  }
}

}  // namespace

timespec timespec_of(uint64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / kSecond_ns),
          static_cast<long>(nanoseconds % kSecond_ns)};
}

timeval timeval_of(uint64_t nanoseconds) {
  const timespec time = timespec_of(nanoseconds);
  return {time.tv_sec, time.tv_nsec / 1000};
}

uint64_t nanoseconds_of(const timespec& time) {
  const auto seconds = static_cast<uint64_t>(std::clamp<int64_t>(time.tv_sec, 0, kMost_s));
  return seconds * kSecond_ns + static_cast<uint64_t>(std::max<long>(time.tv_nsec, 0));
}

std::optional<timespec> VirtualClock::read(clockid_t clock) const {
  const auto begin = begin_of(clock);
  if (!begin) return std::nullopt;
  return timespec_of(static_cast<uint64_t>(*begin) * kSecond_ns + now_ns());
}

std::optional<uint64_t> VirtualClock::elapsed_at(clockid_t clock, const timespec& moment) const {
  const auto begin = begin_of(clock);
  if (!begin) return std::nullopt;
  const uint64_t begin_ns = static_cast<uint64_t>(*begin) * kSecond_ns;
  const uint64_t moment_ns = nanoseconds_of(moment);
  return moment_ns > begin_ns ? moment_ns - begin_ns : 0;
}

}  // namespace shadowprof::machine
