// SPDX-License-Identifier: MIT
#include "inject/fixed/virtual_timers.h"

#include <algorithm>
#include <tuple>

namespace shadowprof::inject {

uint64_t VirtualTimers::now_ns(const VirtualTimer& timer, const machine::VirtualClock& clock) {
  return timer.of_work ? clock.worked_ns() : clock.now_ns();
}

VirtualTimer* VirtualTimers::find(const TimerName& name) {
  const auto it = timers_.find(name);
  return it == timers_.end() ? nullptr : &it->second;
}

void VirtualTimers::arm(VirtualTimer& timer, uint64_t until_ns, uint64_t interval_ns) {
  timer.until_ns = until_ns;
  timer.interval_ns = interval_ns;
  timer.again_ns = 0;
  timer.armed = ++arms_;
  timer.overruns = 0;
}

TimerSetting VirtualTimers::setting(const VirtualTimer& timer, const machine::VirtualClock& clock) {
  if (timer.until_ns == 0) return {0, timer.interval_ns};
  const uint64_t clock_ns = now_ns(timer, clock);
  // One that has expired, though nobody has seen it yet, is still armed.
  return {timer.until_ns > clock_ns ? timer.until_ns - clock_ns : 1, timer.interval_ns};
}

bool VirtualTimers::any_armed() const {
  return std::ranges::any_of(timers_, [](const auto& entry) { return entry.second.until_ns != 0; });
}

size_t VirtualTimers::with_signal(Tid process, int signal) const {
  return static_cast<size_t>(std::ranges::count_if(timers_, [&](const auto& entry) {
    return entry.first.process == process.value && entry.second.event.signal == signal;
  }));
}

std::optional<uint64_t> VirtualTimers::first_ns() const {
  std::optional<uint64_t> first;
  for (const auto& [name, timer] : timers_) {
    if (timer.until_ns == 0 || timer.of_work) continue;
    const uint64_t look_ns = std::max(timer.until_ns, timer.again_ns);
    first = std::min(first.value_or(look_ns), look_ns);
  }
  return first;
}

std::optional<uint64_t> VirtualTimers::least_left_ns(const machine::VirtualClock& clock) const {
  std::optional<uint64_t> least;
  for (const auto& [name, timer] : timers_) {
    if (timer.until_ns == 0) continue;
    const uint64_t left_ns = setting(timer, clock).left_ns;
    least = std::min(least.value_or(left_ns), left_ns);
  }
  return least;
}

std::vector<VirtualTimers::Expiry> VirtualTimers::take_expired(const machine::VirtualClock& clock) {
  std::vector<Expiry> expired;
  for (auto& [name, timer] : timers_) {
    const uint64_t clock_ns = now_ns(timer, clock);
    if (timer.until_ns == 0 || timer.until_ns > clock_ns) continue;
    Expiry expiry{name, timer, 1};
    if (timer.interval_ns == 0) {
      timer.until_ns = 0;
    } else {
      expiry.times += (clock_ns - timer.until_ns) / timer.interval_ns;
      timer.until_ns += expiry.times * timer.interval_ns;
      timer.again_ns = clock_ns + kLeastStep_ns;
    }
    expired.push_back(expiry);
  }
  std::ranges::sort(expired, {},
                    [](const Expiry& e) { return std::tuple(e.timer.until_ns, e.timer.armed); });
  return expired;
}

std::vector<VirtualTimers::Expiry> VirtualTimers::armed_of(Tid process) const {
  std::vector<Expiry> all;
  for (const auto& [name, timer] : timers_)
    if ((name.process == process.value || timer.holder == process) && timer.until_ns != 0)
      all.push_back({name, timer, 0});
  return all;
}

void VirtualTimers::executed(Tid process) {
  std::erase_if(timers_, [&](const auto& entry) {
    return entry.first.kind == TimerName::Kind::posix && entry.first.process == process.value;
  });
}

void VirtualTimers::ended(Tid process) {
  std::erase_if(timers_, [&](const auto& entry) {
    return entry.first.kind != TimerName::Kind::descriptor && entry.first.process == process.value;
  });
}

}  // namespace shadowprof::inject
