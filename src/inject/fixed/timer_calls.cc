// SPDX-License-Identifier: MIT
#include "inject/fixed/timer_calls.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "inject/fixed/timer_descriptor.h"
#include "kernel/proc.h"

namespace shadowprof::inject {
namespace {

using machine::VirtualClock;
using Kind = TimerName::Kind;

constexpr unsigned kTimerCalls[] = {
    SYS_alarm,           SYS_setitimer,       SYS_getitimer,    SYS_timer_create,
    SYS_timer_settime,   SYS_timer_gettime,   SYS_timer_delete, SYS_timer_getoverrun,
    SYS_timerfd_settime, SYS_timerfd_gettime,
};
constexpr uint64_t kMost_ns = uint64_t{1} << 62;  // a century
constexpr uint64_t kSecond_ns = VirtualClock::kSecond_ns;

bool is_valid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && static_cast<uint64_t>(time.tv_nsec) < kSecond_ns;
}

timespec timespec_of(const timeval& time) {
  // Beyond the range of what is valid, where it is.
  return {time.tv_sec, time.tv_usec < 0 || time.tv_usec > 999'999 ? -1 : time.tv_usec * 1000};
}

template <typename T>
int64_t put_if_wanted(const TimerCall& call, uint64_t address, const T& value) {
  return address == 0 || call.memory.put(address, value) ? 0 : -EFAULT;
}

itimerspec spec_of(const TimerSetting& setting) {
  return {machine::timespec_of(setting.interval_ns), machine::timespec_of(setting.left_ns)};
}

uint64_t after(uint64_t now_ns, uint64_t length_ns) {
  return now_ns + std::min(length_ns, kMost_ns);
}

// The moment of a timer's clock, since the run began; what is past expires at once.
uint64_t until(const VirtualTimer& timer, const TimerCall& call, const timespec& moment) {
  const uint64_t moment_ns = machine::nanoseconds_of(moment);
  if (timer.of_work) return call.began_ns + std::min(moment_ns, kMost_ns);
  return std::max<uint64_t>(1, call.clock.elapsed_at(timer.clock, moment).value_or(1));
}

void set(VirtualTimer& timer, const TimerCall& call, const itimerspec& wanted, bool is_moment) {
  const uint64_t length_ns = machine::nanoseconds_of(wanted.it_value);
  uint64_t until_ns = 0;
  if (length_ns != 0)
    until_ns = is_moment ? until(timer, call, wanted.it_value)
                         : after(VirtualTimers::now_ns(timer, call.clock), length_ns);
  call.timers.arm(timer, until_ns, machine::nanoseconds_of(wanted.it_interval));
}

// --- setitimer(2), alarm(2)

VirtualTimer& interval_timer(const TimerCall& call, int which) {
  const TimerName name{Kind::interval, call.process.value, which};
  if (VirtualTimer* known = call.timers.find(name)) return *known;
  constexpr int kSignals[] = {SIGALRM, SIGVTALRM, SIGPROF};
  VirtualTimer timer;
  timer.of_work = which != ITIMER_REAL;
  timer.event.signal = kSignals[which];
  return call.timers.add(name, timer);
}

int64_t put_interval(const TimerCall& call, uint64_t address, const TimerSetting& setting) {
  return put_if_wanted(
      call, address,
      itimerval{machine::timeval_of(setting.interval_ns), machine::timeval_of(setting.left_ns)});
}

int64_t set_interval(const TimerCall& call) {
  itimerval wanted{};
  if (call.regs.rsi != 0) {
    const auto read = call.memory.read_argument<itimerval>(GuestAddr(call.regs.rsi));
    if (!read) return -EFAULT;
    wanted = *read;
  }
  const itimerspec spec{timespec_of(wanted.it_interval), timespec_of(wanted.it_value)};
  const uint64_t which = call.regs.rdi & 0xffffffff;
  if (!is_valid(spec.it_interval) || !is_valid(spec.it_value) || which > ITIMER_PROF)
    return -EINVAL;
  VirtualTimer& timer = interval_timer(call, static_cast<int>(which));
  const TimerSetting before = VirtualTimers::setting(timer, call.clock);
  set(timer, call, spec, false);
  return put_interval(call, call.regs.rdx, before);
}

int64_t get_interval(const TimerCall& call) {
  const uint64_t which = call.regs.rdi & 0xffffffff;
  if (which > ITIMER_PROF) return -EINVAL;
  const VirtualTimer& timer = interval_timer(call, static_cast<int>(which));
  if (call.regs.rsi == 0) return -EFAULT;
  return put_interval(call, call.regs.rsi, VirtualTimers::setting(timer, call.clock));
}

// What was left, rounded, but never to nothing.
int64_t set_alarm(const TimerCall& call) {
  VirtualTimer& timer = interval_timer(call, ITIMER_REAL);
  const uint64_t left_ns = VirtualTimers::setting(timer, call.clock).left_ns;
  set(timer, call, {{0, 0}, {static_cast<time_t>(call.regs.rdi & 0xffffffff), 0}}, false);
  if (left_ns == 0) return 0;
  return static_cast<int64_t>(std::max<uint64_t>(1, (left_ns + kSecond_ns / 2) / kSecond_ns));
}

// --- timer_create(2) and its relatives

VirtualTimer* posix_timer(const TimerCall& call) {
  return call.timers.find({Kind::posix, call.process.value, static_cast<int>(call.regs.rdi)});
}

// SIGEV_NONE sends no signal.
TimerEvent event_of(const TimerCall& call, int id) {
  TimerEvent event{SIGALRM, {}, {}};
  event.value.sival_int = id;
  if (call.regs.rsi == 0) return event;
  const auto asked = call.memory.read_argument<sigevent>(GuestAddr(call.regs.rsi));
  if (!asked) return event;
  event.value = asked->sigev_value;
  event.signal = asked->sigev_notify == SIGEV_NONE ? 0 : asked->sigev_signo;
  if (asked->sigev_notify != SIGEV_THREAD_ID) return event;
  event.thread = call.thread_of(asked->_sigev_un._tid);
  return event;
}

void note_created(const TimerCall& call) {
  const auto clock = static_cast<clockid_t>(call.regs.rdi);
  const auto id = call.memory.read_argument<int>(GuestAddr(call.regs.rdx));
  if (!id) return;
  VirtualTimer timer;
  timer.clock = clock;
  timer.of_work = is_own_processor_clock(call.process, clock);
  if (!timer.of_work && !call.clock.read(clock)) return;
  timer.event = event_of(call, *id);
  call.timers.add({Kind::posix, call.process.value, *id}, timer);
}

std::optional<int64_t> set_posix(const TimerCall& call) {
  VirtualTimer* timer = posix_timer(call);
  if (timer == nullptr) return std::nullopt;
  if (call.regs.rdx == 0) return -EINVAL;
  const auto wanted = call.memory.read_argument<itimerspec>(GuestAddr(call.regs.rdx));
  if (!wanted) return -EFAULT;
  if (!is_valid(wanted->it_value) || !is_valid(wanted->it_interval)) return -EINVAL;
  const TimerSetting before = VirtualTimers::setting(*timer, call.clock);
  set(*timer, call, *wanted, (call.regs.rsi & TIMER_ABSTIME) != 0);
  return put_if_wanted(call, call.regs.r10, spec_of(before));
}

std::optional<int64_t> get_posix(const TimerCall& call) {
  const VirtualTimer* timer = posix_timer(call);
  if (timer == nullptr) return std::nullopt;
  if (call.regs.rsi == 0) return -EFAULT;
  return put_if_wanted(call, call.regs.rsi, spec_of(VirtualTimers::setting(*timer, call.clock)));
}

std::optional<int64_t> get_overrun(const TimerCall& call) {
  const VirtualTimer* timer = posix_timer(call);
  if (timer == nullptr) return std::nullopt;
  return static_cast<int64_t>(std::min<uint64_t>(timer->overruns, INT32_MAX));
}

// --- timerfd_settime(2), timerfd_gettime(2)

VirtualTimer* timer_of(const TimerCall& call, const TimerDescriptor& open) {
  return open.mark() == 0 ? nullptr : call.timers.find({Kind::descriptor, 0, open.mark()});
}

TimerSetting setting_of(const TimerCall& call, const TimerDescriptor& open) {
  const VirtualTimer* timer = timer_of(call, open);
  return timer == nullptr ? TimerSetting() : VirtualTimers::setting(*timer, call.clock);
}

std::optional<int64_t> set_descriptor(const TimerCall& call) {
  const auto wanted = call.memory.read_argument<itimerspec>(GuestAddr(call.regs.rdx));
  if (!wanted) return -EFAULT;
  constexpr uint32_t kKnownFlags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
  const bool is_sound = (static_cast<uint32_t>(call.regs.rsi) & ~kKnownFlags) == 0 &&
                        is_valid(wanted->it_value) && is_valid(wanted->it_interval);
  const auto number = static_cast<int>(call.regs.rdi);
  auto open = TimerDescriptor::of(call.process, number);
  if (!open || !is_sound) return std::nullopt;  // an error, or too new for us
  const TimerSetting before = setting_of(call, *open);
  call.timers.remove({Kind::descriptor, 0, open->mark()});
  const bool is_armed = machine::nanoseconds_of(wanted->it_value) != 0;
  const int mark = is_armed ? call.timers.next_mark(TimerDescriptor::kMostMarks) : 0;
  if (!open->set_mark(mark)) return std::nullopt;
  if (is_armed) {
    VirtualTimer timer;
    timer.clock = open->clock();
    timer.holder = call.process;
    timer.descriptor = number;
    VirtualTimer& added = call.timers.add({Kind::descriptor, 0, mark}, timer);
    set(added, call, *wanted, (call.regs.rsi & TFD_TIMER_ABSTIME) != 0);
  }
  return put_if_wanted(call, call.regs.r10, spec_of(before));
}

std::optional<int64_t> get_descriptor(const TimerCall& call) {
  const auto open = TimerDescriptor::of(call.process, static_cast<int>(call.regs.rdi));
  if (!open) return std::nullopt;
  if (call.regs.rsi == 0) return -EFAULT;
  return put_if_wanted(call, call.regs.rsi, spec_of(setting_of(call, *open)));
}

}  // namespace

std::span<const unsigned> timer_calls() {
  return kTimerCalls;
}

bool is_timer_call(long number) {
  return std::ranges::count(kTimerCalls, static_cast<unsigned>(number)) != 0;
}

std::optional<int64_t> answer_timer_call(const TimerCall& call) {
  switch (call.number()) {
    case SYS_alarm:
      return set_alarm(call);
    case SYS_setitimer:
      return set_interval(call);
    case SYS_getitimer:
      return get_interval(call);
    case SYS_timer_settime:
      return set_posix(call);
    case SYS_timer_gettime:
      return get_posix(call);
    case SYS_timer_getoverrun:
      return get_overrun(call);
    case SYS_timerfd_settime:
      return set_descriptor(call);
    case SYS_timerfd_gettime:
      return get_descriptor(call);
    default:
      return std::nullopt;
  }
}

void note_timer_call(const TimerCall& call) {
  if (call.number() == SYS_timer_create) note_created(call);
  if (call.number() == SYS_timer_delete)
    call.timers.remove({Kind::posix, call.process.value, static_cast<int>(call.regs.rdi)});
}

}  // namespace shadowprof::inject
