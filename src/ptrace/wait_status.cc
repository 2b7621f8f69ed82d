// SPDX-License-Identifier: MIT
//
// Decoding of wait statuses. A stop's status is (code << 8) | 0x7f, where code is the signal, for a
// system call stop with its high bit set (PTRACE_O_TRACESYSGOOD), or signal | (event << 8).
#include "ptrace/wait_status.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cstring>

namespace shadowprof::ptrace {
namespace {

constexpr int kSyscallStopCode = SIGTRAP | 0x80;
constexpr int kStoppedMark = 0x7f;

StopEvent event_of(int number) {
  switch (number) {
    case 0:
      return StopEvent::none;
    case PTRACE_EVENT_FORK:
      return StopEvent::fork;
    case PTRACE_EVENT_VFORK:
      return StopEvent::vfork;
    case PTRACE_EVENT_VFORK_DONE:
      return StopEvent::vfork_done;
    case PTRACE_EVENT_CLONE:
      return StopEvent::clone;
    case PTRACE_EVENT_EXEC:
      return StopEvent::exec;
    case PTRACE_EVENT_EXIT:
      return StopEvent::exit;
    case PTRACE_EVENT_SECCOMP:
      return StopEvent::seccomp;
    case PTRACE_EVENT_STOP:
      return StopEvent::stop;
    default:
      return StopEvent::unknown;
  }
}

const char* name_of(StopEvent event) {
  switch (event) {
    case StopEvent::none:
      return "none";
    case StopEvent::fork:
      return "fork";
    case StopEvent::vfork:
      return "vfork";
    case StopEvent::vfork_done:
      return "vfork done";
    case StopEvent::clone:
      return "clone";
    case StopEvent::exec:
      return "exec";
    case StopEvent::exit:
      return "exit";
    case StopEvent::seccomp:
      return "seccomp";
    case StopEvent::stop:
      return "stop";
    case StopEvent::unknown:
      break;
  }
  return "unknown";
}

std::string signal_name(int signal) {
  if (const char* name = ::sigabbrev_np(signal)) return fmt::format("SIG{}", name);
  return fmt::format("signal {}", signal);
}

}  // namespace

WaitStatus WaitStatus::from_raw(int status) {
  WaitStatus out;
  if (WIFEXITED(status)) {
    out.kind_ = Kind::exited;
    out.value_ = WEXITSTATUS(status);
    return out;
  }
  if (WIFSIGNALED(status)) {
    out.kind_ = Kind::killed;
    out.value_ = WTERMSIG(status);
    out.core_dumped_ = WCOREDUMP(status);
    return out;
  }
  const int code = static_cast<int>(static_cast<unsigned>(status) >> 8);
  const int event = code >> 8;
  out.value_ = code & 0xff;
  if (code == kSyscallStopCode) {
    out.kind_ = Kind::syscall_stop;
    out.value_ = SIGTRAP;
  } else if (event == PTRACE_EVENT_STOP && out.value_ != SIGTRAP) {
    out.kind_ = Kind::group_stop;
  } else if (event != 0) {
    out.kind_ = Kind::event;
    out.event_ = event_of(event);
  } else {
    out.kind_ = Kind::signal_stop;
  }
  return out;
}

WaitStatus WaitStatus::from_waitid(const siginfo_t& report) {
  switch (report.si_code) {
    case CLD_EXITED:
      return from_raw((report.si_status & 0xff) << 8);
    case CLD_KILLED:
      return from_raw(report.si_status & 0x7f);
    case CLD_DUMPED:
      return from_raw((report.si_status & 0x7f) | 0x80);
    default:
      return from_raw(static_cast<int>(static_cast<unsigned>(report.si_status) << 8) |
                      kStoppedMark);
  }
}

WaitStatus WaitStatus::from_stop_siginfo(const siginfo_t& info) {
  const bool notified =
      info.si_code == kSyscallStopCode ||
      ((info.si_code >> 8) != 0 && info.si_code > 0 && (info.si_code & 0x7f) == info.si_signo);
  const int code = notified ? info.si_code : info.si_signo;
  return from_raw(static_cast<int>(static_cast<unsigned>(code) << 8) | kStoppedMark);
}

std::string to_string(const WaitStatus& status) {
  using Kind = WaitStatus::Kind;
  switch (status.kind()) {
    case Kind::exited:
      return fmt::format("exited with {}", status.exit_code());
    case Kind::killed:
      return fmt::format("killed by {}{}", signal_name(status.signal()),
                         status.core_dumped() ? " (core dumped)" : "");
    case Kind::signal_stop:
      return fmt::format("stopped for {}", signal_name(status.signal()));
    case Kind::group_stop:
      return fmt::format("group stop by {}", signal_name(status.signal()));
    case Kind::syscall_stop:
      return "system call stop";
    case Kind::event:
      break;
  }
  return fmt::format("{} event", name_of(status.event()));
}

}  // namespace shadowprof::ptrace
