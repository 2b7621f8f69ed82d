// SPDX-License-Identifier: MIT
#include "ptrace/wait.h"

#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "kernel/proc.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {
namespace {

using Clock = std::chrono::steady_clock;

// A report that comes within microseconds is looked for without sleeping. Our processor would have
// to be woken for it, which on many virtual machines takes longer than the stop. It pays while
// reports come thickly and the tracee has a processor of its own; whether they do is tried now and
// then.
class Eagerness {
 public:
  // look(): is there a report? True: it has come.
  template <typename Look>
  bool finds(const Look& look) {
    if (waits_ < pause_) {
      waits_++;
      return false;
    }
    if (pause_ != 0 && !has_processors()) return false;
    const Moment begun = Clock::now();
    bool found = look();
    while (!found && Clock::now() - begun < kMost) {
      __builtin_ia32_pause();  // who yields to a thread that computes waits for its time slice
      found = look();
    }
    waits_ = 0;
    pause_ = found ? 0 : std::clamp(2 * pause_, kShortestPause, kLongestPause);
    return found;
  }

 private:
  static constexpr std::chrono::microseconds kMost{100};
  // Waits that sleep between two trials.
  static constexpr unsigned kShortestPause = 8, kLongestPause = 1024;

  static bool has_processors() {
    cpu_set_t ours;
    return ::sched_getaffinity(0, sizeof ours, &ours) == 0 && CPU_COUNT(&ours) > 1;
  }

  unsigned pause_ = kShortestPause;
  unsigned waits_ = 0;  // since the last trial
};

Eagerness& eagerness() {
  thread_local Eagerness ours;
  return ours;
}

WaitOutcome wait_pid(pid_t pid, WaitMode mode) {
  WaitOutcome out;
  int raw = 0;
  pid_t got = 0;
  const auto look = [&] {
    got = ::waitpid(pid, &raw, __WALL | WNOHANG);
    return got != 0;
  };
  const bool is_there = mode == WaitMode::poll ? look() : eagerness().finds(look);
  if (!is_there && mode == WaitMode::block) got = ::waitpid(pid, &raw, __WALL);
  if (got > 0) {
    out.kind = WaitOutcome::Kind::status;
    out.tid = Tid(got);
    out.status = WaitStatus::from_raw(raw);
  } else if (got < 0) {
    SP_CHECK(errno == EINTR || errno == ECHILD, "waitpid {}: {}", pid, std::strerror(errno));
    out.kind = errno == EINTR ? WaitOutcome::Kind::interrupted : WaitOutcome::Kind::no_children;
  }
  return out;
}

// waitid with retry over EINTR. False: no such child.
bool wait_id(Tid tid, int options, siginfo_t& report, idtype_t which = P_PID) {
  for (;;) {
    report = {};
    if (::waitid(which, static_cast<id_t>(tid.value), &report, options | __WALL) == 0) return true;
    SP_CHECK(errno == EINTR || errno == ECHILD, "waitid {}: {}", tid.value, std::strerror(errno));
    if (errno == ECHILD) return false;
  }
}

}  // namespace

WaitOutcome wait_any(WaitMode mode) {
  return wait_pid(-1, mode);
}

WaitOutcome wait_for(Tid tid, WaitMode mode) {
  return wait_pid(tid.value, mode);
}

namespace {

// As in /proc/TID/stat; Z if there is no such thread any more, ? if the file cannot be read just
// now.
char state_of(Tid tid) {
  const auto state = kernel::read_state(tid);
  if (state) return *state;
  const int error = state.error().errno_value;
  return error == ENOENT || error == ESRCH ? 'Z' : '?';
}

// Looks without sleeping, for about the time that a stop takes. Where others want the processor one
// yield may last longer than that: who sleeps a little instead is woken before them.
bool is_eager(unsigned looks, Moment begun) {
  constexpr unsigned kEager = 200;
  constexpr std::chrono::microseconds kMostEager{200};
  return looks < kEager && Clock::now() - begun < kMostEager;
}

// Until there is something to report. An Error: there will be nothing before others have acted. So
// it is with the first thread of a process that was killed: its death is reported when all others
// are dead, who wait for us at their exit events.
Status poll_for_report(Tid tid, Patience patience, Moment give_up_at, siginfo_t& report) {
  // Asleep as long as nobody has anything to report, which is mostly until this thread has.
  if (patience == Patience::endless) {
    constexpr int kAnyReport = WEXITED | WSTOPPED | WNOWAIT;
    const bool is_there = eagerness().finds(
        [&] { return wait_id(tid, kAnyReport | WNOHANG, report, P_ALL) && report.si_pid != 0; });
    if (!is_there && !wait_id(tid, kAnyReport, report, P_ALL)) return thread_is_gone(tid);
    if (report.si_pid == tid.value) return {};
  }
  constexpr unsigned kLooksPerCheck = 20;
  const Moment begun = Clock::now();
  unsigned stopped = 0;  // times in a row that it was seen so, with nothing to report
  for (unsigned looks = 0;; looks++) {
    if (!wait_id(tid, WEXITED | WSTOPPED | WNOWAIT | WNOHANG, report)) return thread_is_gone(tid);
    if (report.si_pid != 0) return {};
    if (is_eager(looks, begun)) {
      ::sched_yield();
      continue;
    }
    if (patience == Patience::bounded && Clock::now() >= give_up_at)
      return fail_errno(ETIMEDOUT, "thread {} has not stopped in time", tid.value);
    const char state = looks % kLooksPerCheck == 0 ? state_of(tid) : 'R';
    if (state == 'Z') return thread_is_gone(tid);
    if (looks % kLooksPerCheck == 0) stopped = state == 't' ? stopped + 1 : 0;
    if (stopped > 1 && patience == Patience::bounded)
      return fail_errno(EAGAIN, "the stop of thread {} was taken already", tid.value);
    if (state == 'D' && patience == Patience::bounded)
      return fail_errno(EAGAIN, "thread {} waits uninterruptibly", tid.value);
    constexpr unsigned kAttentive = 2000;  // looks before who may wait for long is looked at less
    constexpr timespec kPause{0, 50'000}, kLongPause{0, 1'000'000};
    const bool is_long = patience != Patience::bounded && looks > kAttentive;
    ::nanosleep(is_long ? &kLongPause : &kPause, nullptr);
  }
}

}  // namespace

bool await_report(Tid tid) {
  constexpr unsigned kMostAsleep = 400;  // looks in a row, each of 100 us or so
  constexpr timespec kPause{0, 50'000};
  unsigned asleep = 0;
  const Moment begun = Clock::now();
  for (unsigned looks = 0; asleep < kMostAsleep; looks++) {
    siginfo_t report;
    const bool is_known = wait_id(tid, WEXITED | WSTOPPED | WNOWAIT | WNOHANG, report);
    if (!is_known || report.si_pid != 0) return true;
    if (is_eager(looks, begun)) {
      ::sched_yield();
      continue;
    }
    const char state = state_of(tid);
    if (state == 'Z') return true;  // who was killed, perhaps reported when others' ends were taken
    asleep = state == 'D' || state == 'S' ? asleep + 1 : 0;
    ::nanosleep(&kPause, nullptr);
  }
  return false;
}

Result<WaitStatus> wait_for_stop(Tid tid, Patience patience, Moment give_up_at) {
  for (;;) {
    siginfo_t report;
    SP_TRY(poll_for_report(tid, patience, give_up_at, report));
    if (WaitStatus::from_waitid(report).ends_the_thread()) return thread_is_gone(tid);
    // Without WEXITED, so that a death since the look above stays.
    if (!wait_id(tid, WSTOPPED | WNOHANG, report)) return thread_is_gone(tid);
    if (report.si_pid == 0) continue;
    const WaitStatus status = WaitStatus::from_waitid(report);
    if (!status.ends_the_thread()) return status;
    // Let it go on to its death, which the caller will see. (An exec event cannot come here: it
    // needs the thread to run, and it was stopped.)
    (void)Tracee(tid).cont_if_alive();
    return thread_is_gone(tid);
  }
}

}  // namespace shadowprof::ptrace
