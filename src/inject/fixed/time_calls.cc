// SPDX-License-Identifier: MIT
#include "inject/fixed/time_calls.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernel/proc.h"

namespace shadowprof::inject {
namespace {

using machine::VirtualClock;

constexpr unsigned kTimeCalls[] = {SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,
                                   SYS_time,          SYS_times,        SYS_getrusage};

constexpr unsigned kChildWaits[] = {SYS_wait4, SYS_waitid};

// Time in the kernel, page faults and switches are the host's business.
rusage without_host(const rusage& told) {
  rusage seen{};
  seen.ru_maxrss = told.ru_maxrss;
  return seen;
}

uint64_t used_ns(const TimeCall& call) {
  return call.clock.worked_ns() - call.began_ns;
}

std::optional<int64_t> get_time(const TimeCall& call) {
  const auto clock = static_cast<clockid_t>(call.regs.rdi);
  std::optional<timespec> time = call.clock.read(clock);
  if (!time && is_own_processor_clock(call.process, clock))
    time = machine::timespec_of(used_ns(call));
  if (!time) return std::nullopt;
  return call.memory.put(call.regs.rsi, *time) ? 0 : -EFAULT;
}

std::optional<int64_t> get_resolution(const TimeCall& call) {
  const auto clock = static_cast<clockid_t>(call.regs.rdi);
  if (!call.clock.read(clock) && !is_own_processor_clock(call.process, clock)) return std::nullopt;
  const bool is_put = call.regs.rsi == 0 || call.memory.put(call.regs.rsi, timespec{0, 1});
  return is_put ? 0 : -EFAULT;
}

int64_t get_time_of_day(const TimeCall& call) {
  const timespec time = *call.clock.read(CLOCK_REALTIME);
  const timeval seen{time.tv_sec, time.tv_nsec / 1000};
  if (call.regs.rdi != 0 && !call.memory.put(call.regs.rdi, seen)) return -EFAULT;
  const struct timezone utc {};
  return call.regs.rsi == 0 || call.memory.put(call.regs.rsi, utc) ? 0 : -EFAULT;
}

int64_t get_seconds(const TimeCall& call) {
  const time_t now = call.clock.read(CLOCK_REALTIME)->tv_sec;
  return call.regs.rdi == 0 || call.memory.put(call.regs.rdi, now) ? now : -EFAULT;
}

int64_t get_times(const TimeCall& call) {
  constexpr uint64_t kTick_ns = VirtualClock::kSecond_ns / VirtualClock::kTicksPerSecond;
  struct tms used {};
  used.tms_utime = static_cast<clock_t>(used_ns(call) / kTick_ns);
  if (call.regs.rdi != 0 && !call.memory.put(call.regs.rdi, used)) return -EFAULT;
  return static_cast<int64_t>(call.clock.time_stamp() / kTick_ns);
}

}  // namespace

std::span<const unsigned> time_calls() {
  return kTimeCalls;
}

bool is_time_call(long number) {
  return std::ranges::count(kTimeCalls, static_cast<unsigned>(number)) != 0;
}

// include/linux/posix-timers_types.h of the kernel has the bits.
bool is_own_processor_clock(Tid process, clockid_t clock) {
  if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID) return true;
  constexpr int kKindBits = 3, kDescriptor = 3;
  if (clock >= 0 || (clock & kDescriptor) == kDescriptor) return false;
  const int owner = ~(clock >> kKindBits);
  return owner == 0 || kernel::names_thread_of(process, owner);
}

std::optional<int64_t> answer_time_call(const TimeCall& call) {
  call.clock.look();
  switch (call.number()) {
    case SYS_clock_gettime:
      return get_time(call);
    case SYS_clock_getres:
      return get_resolution(call);
    case SYS_gettimeofday:
      return get_time_of_day(call);
    case SYS_time:
      return get_seconds(call);
    case SYS_times:
      return get_times(call);
    default:
      return std::nullopt;
  }
}

void mend_resource_usage(const TimeCall& call) {
  if (call.number() != SYS_getrusage) return;
  auto usage = call.memory.read_value<rusage>(GuestAddr(call.regs.rsi));
  if (!usage) return;
  const bool is_own = static_cast<int>(call.regs.rdi) != RUSAGE_CHILDREN;
  rusage seen = without_host(*usage);
  if (is_own) seen.ru_utime = machine::timeval_of(used_ns(call));
  (void)call.memory.put(call.regs.rsi, seen);
}

std::span<const unsigned> child_waits() {
  return kChildWaits;
}

std::optional<ChildUsage> ChildUsage::of(const machine::Registers& regs,
                                         ptrace::RemoteMemory& memory) {
  const auto number = static_cast<int>(regs.rax);
  if (number != SYS_wait4 && number != SYS_waitid) return std::nullopt;
  ChildUsage usage;
  usage.place_ = GuestAddr(number == SYS_wait4 ? regs.r10 : regs.r8);
  if (usage.place_.value == 0) return std::nullopt;
  usage.before_ = memory.read_value<rusage>(usage.place_).value_or(rusage{});
  return usage;
}

// waitid(2) returns 0 if it has found nobody, too, and then leaves what was there.
void ChildUsage::mend(int64_t result, ptrace::RemoteMemory& memory) const {
  if (result < 0) return;
  const auto told = memory.read_value<rusage>(place_);
  if (!told || std::memcmp(&*told, &before_, sizeof before_) == 0) return;
  (void)memory.put(place_.value, without_host(*told));
}

}  // namespace shadowprof::inject
