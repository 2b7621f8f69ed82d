// SPDX-License-Identifier: MIT
#include "inject/fixed/timer_descriptor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "base/numbered_entries.h"
#include "kernel/fdinfo.h"
#include "machine/virtual_clock.h"
#include "ptrace/borrow_fd.h"

namespace shadowprof::inject {
namespace {

// Marks are so far apart that a run is over before one could be taken for the one below.
constexpr int64_t kFirstMark_s = 2'000'000'000;
constexpr int64_t kBetweenMarks_s = 200'000;

// include/uapi/linux/timerfd.h of Linux, which cannot be included beside sys/timerfd.h.
constexpr unsigned long kSetTicks = _IOW('T', 0, uint64_t);

// The mark whose timer has so long to go.
int mark_of(int64_t left_s) {
  return left_s < kFirstMark_s ? 0
                               : static_cast<int>((left_s - kFirstMark_s) / kBetweenMarks_s) + 1;
}

timespec length_of(int mark) {
  return {kFirstMark_s + mark * kBetweenMarks_s - 1, 0};
}

}  // namespace

std::optional<TimerDescriptor> TimerDescriptor::of(Tid process, int number) {
  std::istringstream info(kernel::read_fdinfo(process, number));
  TimerDescriptor found;
  bool is_timer = false;
  for (std::string line; std::getline(info, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "clockid:") is_timer = static_cast<bool>(words >> found.clock_);
    if (name == "ticks:") words >> found.ticks_;
    if (name != "it_value:") continue;
    int64_t left_s = 0;
    words.ignore(2, '(');
    if (words >> left_s) found.mark_ = mark_of(left_s);
  }
  if (!is_timer) return std::nullopt;
  auto fd = ptrace::borrow_fd(process, number);
  if (!fd) return std::nullopt;
  found.fd_ = std::move(*fd);
  return found;
}

std::optional<TimerDescriptor> TimerDescriptor::with_mark(Tid process, int number, int mark) {
  if (auto found = of(process, number); found && found->mark_ == mark) return found;
  const auto numbers = numbered_entries(fmt::format("/proc/{}/fd", process.value));
  if (!numbers) return std::nullopt;
  for (const int other : *numbers)
    if (auto found = of(process, other); found && found->mark_ == mark) return found;
  return std::nullopt;
}

bool TimerDescriptor::set_mark(int mark) {
  const itimerspec setting{{0, 0}, mark == 0 ? timespec{0, 0} : length_of(mark)};
  if (::timerfd_settime(fd_.get(), 0, &setting, nullptr) != 0) return false;
  mark_ = mark;
  return true;
}

void TimerDescriptor::expire(uint64_t times) {
  const uint64_t ticks = ticks_ + times;
  if (::ioctl(fd_.get(), kSetTicks, &ticks) == 0) return;
  // Not every kernel has that. Its own timer knows one time only.
  arm_really(1, 0);
  pollfd ready{fd_.get(), POLLIN, 0};
  constexpr int kMost_ms = 1000;
  (void)::poll(&ready, 1, kMost_ms);
}

void TimerDescriptor::arm_really(uint64_t left_ns, uint64_t interval_ns) {
  const itimerspec setting{machine::timespec_of(interval_ns), machine::timespec_of(left_ns)};
  (void)::timerfd_settime(fd_.get(), 0, &setting, nullptr);
}

}  // namespace shadowprof::inject
