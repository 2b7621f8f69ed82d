// SPDX-License-Identifier: MIT
#include "inject/thread_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "kernel/proc.h"

namespace shadowprof::inject {
namespace {

// The beginning of a file of the thread's in /proc, as it is now.
std::string_view look_into(const GuestThread& t, UniqueFd& file, const char* name,
                           std::span<char> text) {
  if (!file.valid()) {
    const std::string path =
        fmt::format("/proc/{}/task/{}/{}", t.process->pid.value, t.tracee.tid().value, name);
    file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// "running", or number, arguments, stack pointer and program counter; of a thread that has ended,
// zeros.
std::ifstream present_call_of(const GuestThread& t) {
  return std::ifstream(fmt::format("/proc/{}/syscall", t.tracee.tid().value));
}

}  // namespace

// Who is about to sleep says so first, then looks at what it would wait for, and may go on:
// wait4(2) finds a child that has ended. So a sleeper is asked for its call, too, which the kernel
// tells when it is off its processor. It may have stopped meanwhile, or sleep in a page fault: in
// no call.
//
// Before Linux 5.7 it is told of no call until an execve of the process is over, which waits for
// its other threads.
char state_of(GuestThread& t, const Guests& guests) {
  std::array<char, 512> text;
  const auto look = [&] {
    return kernel::state_in_stat(look_into(t, t.stat, "stat", text)).value_or('X');
  };
  const char state = look();
  if (state != 'S' || guests.is_executing(*t.process)) return state;
  const std::string_view call = look_into(t, t.present_call, "syscall", text);
  if (call.starts_with("running")) return 'R';
  return call.starts_with("-1") ? look() : state;
}

bool has_ended(char state) {
  return state == 'Z' || state == 'X';
}

bool LastingSleep::lasts(const GuestThread& t, char state, Clock::duration limit) {
  if (state == 'R') {
    forget();
    return false;
  }
  const Clock::time_point now = Clock::now();
  const bool is_the_same = since_ && tid_ == t.tracee.tid();
  if (is_the_same && now - *since_ <= limit) return false;
  const uint64_t runs = kernel::schedule_times_of(t.tracee.tid()).runs;
  if (is_the_same && runs == runs_) return true;
  since_ = now;
  tid_ = t.tracee.tid();
  runs_ = runs;
  return false;
}

bool cannot_be_stopped(const GuestThread& t) {
  if (t.in_vfork) return true;
  if (!t.executing) return false;
  std::ifstream file = present_call_of(t);
  long nr = -1;
  return (file >> nr) && (nr == SYS_execve || nr == SYS_execveat);
}

Whereabouts whereabouts(const GuestThread& t) {
  std::ifstream file = present_call_of(t);
  std::string first;
  if (!(file >> first)) return Whereabouts::gone;
  if (first == "running") return Whereabouts::running;
  uint64_t word = 0;
  while (file >> std::hex >> word) {
  }
  if (word == 0) return Whereabouts::gone;
  const bool in_gateway = word == t.process->space->cache().after_syscall_address();
  return first != "-1" && in_gateway ? Whereabouts::asleep_in_gateway : Whereabouts::running;
}

// A stopped process that is let go runs for a moment before it stops again. To its next tracer, who
// may act at once, it is to be as it was.
void await_group_stop(const GuestThread& t) {
  constexpr unsigned kMostLooks = 2000;  // less than a second
  constexpr timespec kPause{0, 50'000};
  for (unsigned looks = 0; looks < kMostLooks; looks++) {
    const auto stat = kernel::read_thread_stat(t.process->pid, t.tracee.tid());
    if (!stat || stat->state == 'T') return;
    ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace shadowprof::inject
