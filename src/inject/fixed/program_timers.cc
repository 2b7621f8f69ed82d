// SPDX-License-Identifier: MIT
#include "inject/fixed/program_timers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "kernel/proc.h"

namespace shadowprof::inject {
namespace {

// By which a signal of setitimer(2) is known until it is delivered: those of the kernel's are not
// a timer's, and may not be sent by others.
constexpr int kNoTimer = -1;

bool is_pending(Tid process, Tid thread, int signal) {
  const auto status = kernel::read_status(thread.value != 0 ? thread : process);
  if (!status) return false;
  const uint64_t pending = thread.value != 0 ? status->pending : status->shared_pending;
  return (pending & ptrace::mask_of(signal)) != 0;
}

}  // namespace

TimerCall ProgramTimers::call(const TimeCall& of_time, const GuestProcess& process) {
  return {of_time, timers_, [this, &process](int id) { return guests_.thread_of(process, id); }};
}

bool ProgramTimers::fire() {
  const std::vector<VirtualTimers::Expiry> due = timers_.take_expired(clock_);
  for (const VirtualTimers::Expiry& expiry : due) {
    if (expiry.name.kind == TimerName::Kind::descriptor) {
      expire_descriptor(expiry);
    } else if (expiry.timer.event.signal != 0) {
      send_signal_of(expiry);
    }
  }
  return !due.empty();
}

void ProgramTimers::send_signal_of(const VirtualTimers::Expiry& expiry) {
  const Tid process(expiry.name.process);
  const TimerEvent& event = expiry.timer.event;
  VirtualTimer* timer = timers_.find(expiry.name);
  const bool is_posix = expiry.name.kind == TimerName::Kind::posix;
  // As the kernel does, which has one signal for each timer.
  if (is_posix && timers_.with_signal(process, event.signal) == 1 &&
      is_pending(process, event.thread, event.signal)) {
    timer->overruns += expiry.times;
    return;
  }
  timer->overruns = expiry.times - 1;
  siginfo_t info{};
  info.si_signo = event.signal;
  info.si_code = SI_TIMER;
  info.si_timerid = is_posix ? expiry.name.number : kNoTimer;
  info.si_overrun = static_cast<int>(std::min<uint64_t>(timer->overruns, INT32_MAX));
  info.si_value = event.value;
  if (event.thread.value != 0)
    (void)::syscall(SYS_rt_tgsigqueueinfo, process.value, event.thread.value, event.signal, &info);
  else
    (void)::syscall(SYS_rt_sigqueueinfo, process.value, event.signal, &info);
}

siginfo_t ProgramTimers::as_the_kernel_sends(const siginfo_t& info) {
  if (info.si_code != SI_TIMER || info.si_timerid != kNoTimer) return info;
  siginfo_t sent{};
  sent.si_signo = info.si_signo;
  sent.si_code = SI_KERNEL;
  return sent;
}

// A child may have it, or who has set it under another number by now.
std::optional<TimerDescriptor> ProgramTimers::open_timer(
    const VirtualTimers::Expiry& expiry) const {
  const VirtualTimer& timer = expiry.timer;
  const int mark = expiry.name.number;
  if (auto open = TimerDescriptor::with_mark(timer.holder, timer.descriptor, mark)) return open;
  for (const auto& [pid, process] : guests_.processes) {
    if (pid == timer.holder) continue;
    if (auto open = TimerDescriptor::with_mark(pid, timer.descriptor, mark)) return open;
  }
  return std::nullopt;
}

void ProgramTimers::expire_descriptor(const VirtualTimers::Expiry& expiry) {
  if (auto open = open_timer(expiry)) return open->expire(expiry.times);
  timers_.remove(expiry.name);  // everybody has closed it
}

void ProgramTimers::leave(GuestThread& t, const ptrace::Registers& regs) {
  const Tid process = t.process->pid;
  const auto armed = timers_.armed_of(process);
  timers_.ended(process);
  if (armed.empty() || !t.slot || !t.tracee.set_registers_if_alive(regs)) return;
  GuestCalls remote(t);
  const uint64_t room = t.slot->guest + offsetof(emu::StatePage, call_time);
  for (const VirtualTimers::Expiry& expiry : armed) {
    const auto [left_ns, interval_ns] = VirtualTimers::setting(expiry.timer, clock_);
    const timespec interval = machine::timespec_of(interval_ns);
    const timespec left = machine::timespec_of(std::max<uint64_t>(left_ns, 1000));
    if (expiry.name.kind == TimerName::Kind::descriptor) {
      timers_.remove(expiry.name);
      if (auto open = open_timer(expiry)) open->arm_really(left_ns, interval_ns);
      continue;
    }
    const bool is_posix = expiry.name.kind == TimerName::Kind::posix;
    const long unit = is_posix ? 1 : 1000;
    const std::array<uint64_t, 4> words = {
        static_cast<uint64_t>(interval.tv_sec), static_cast<uint64_t>(interval.tv_nsec / unit),
        static_cast<uint64_t>(left.tv_sec), static_cast<uint64_t>(left.tv_nsec / unit)};
    std::ranges::copy(words, t.slot->state().call_time);
    if (is_posix)
      (void)remote.call(SYS_timer_settime, expiry.name.number, 0, room, 0);
    else
      (void)remote.call(SYS_setitimer, expiry.name.number, room, 0);
  }
  (void)remote.finish();
}

}  // namespace shadowprof::inject
