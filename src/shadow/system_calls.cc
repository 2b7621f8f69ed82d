// SPDX-License-Identifier: MIT
#include "shadow/system_calls.h"

#include <asm/prctl.h>
#include <linux/membarrier.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace shadowprof::shadow {
namespace {

constexpr long kRseq = 334;
constexpr uint64_t kOnlyAsk = 0xffffffff;  // personality(2)
constexpr int kPrSetVma = 0x53564d41;

// Requests that read what a terminal, pipe or descriptor is, and nothing more.
constexpr uint64_t kHarmlessRequests[] = {TCGETS,  TIOCGWINSZ, TIOCGPGRP, FIONREAD,
                                          FIOCLEX, FIONCLEX,   TIOCOUTQ};

bool is_harmless(uint64_t request) {
  return std::find(std::begin(kHarmlessRequests), std::end(kHarmlessRequests), request) !=
         std::end(kHarmlessRequests);
}

// prctl options that ask, or name things in the replica's own address space.
bool is_harmless_prctl(uint64_t option) {
  switch (option) {
    case PR_GET_DUMPABLE:
    case PR_GET_NAME:
    case PR_SET_NAME:
    case PR_GET_SECCOMP:
    case PR_GET_NO_NEW_PRIVS:
    case PR_CAPBSET_READ:
    case PR_GET_TIMERSLACK:
    case PR_GET_THP_DISABLE:
    case kPrSetVma:
      return true;
    default:
      return false;
  }
}

bool writes_data(long nr) {
  return nr == SYS_write || nr == SYS_writev || nr == SYS_sendto || nr == SYS_sendmsg;
}

}  // namespace

bool takes_descriptor(long nr) {
  constexpr long kCalls[] = {SYS_fstat,
                             SYS_newfstatat,
                             SYS_statx,
                             SYS_fstatfs,
                             SYS_fgetxattr,
                             SYS_flistxattr,
                             SYS_getsockname,
                             SYS_getpeername,
                             SYS_readlinkat,
                             SYS_faccessat,
                             SYS_faccessat2,
                             SYS_fchdir,
                             SYS_name_to_handle_at,
                             SYS_timerfd_gettime,
                             451 /* cachestat */};
  return std::find(std::begin(kCalls), std::end(kCalls), nr) != std::end(kCalls);
}

SyscallAnswer SystemCalls::answer(GuestThread& thread, const ptrace::Registers& registers,
                                  ptrace::RemoteSyscalls& remote) {
  Call call{thread, static_cast<int>(registers.rax), {}, remote};
  for (size_t i = 0; i < 6; i++) call.args[i] = registers.syscall_argument(i);
  const kernel::SyscallRow* row = kernel::find_syscall(call.nr);
  if (!row) return end(call, Outcome::system_call, "a system call that is not in the table");
  Answer made = by_class(call, *row);
  return log_ ? as_program(call, std::move(made)) : made;
}

// The program's answer to the same call, if there is one and it is better than ours.
SyscallAnswer SystemCalls::as_program(const Call& call, Answer otherwise) {
  const bool ends = otherwise.kind == Answer::Kind::ends &&
                    (otherwise.ending.outcome == Outcome::input ||
                     otherwise.ending.outcome == Outcome::system_call);
  if (!ends && otherwise.kind != Answer::Kind::value) return otherwise;
  LoggedCall logged;
  switch (log_->take(call.thread.tid, call.nr, call.args, logged)) {
    case InputLog::Taken::never:
      return otherwise;
    case InputLog::Taken::not_yet:
      return ends && is_kept(call.nr) ? Answer{Answer::Kind::not_yet, 0, {}} : otherwise;
    case InputLog::Taken::taken:
      break;
  }
  if (!ends) return writes_data(call.nr) ? value(logged.result) : otherwise;
  if (!write_back(call, logged)) {
    return end(call, Outcome::input, "it does something else than the program");
  }
  if (returns_descriptor(call.nr) && logged.result >= 0) {
    descriptors_.appeared(static_cast<int>(logged.result));
  }
  return value(logged.result);
}

bool SystemCalls::write_back(const Call& call, const LoggedCall& logged) {
  const auto ranges = kernel_writes(call.nr, call.args, logged.result, memory_);
  if (!ranges || ranges->size() != logged.writes.size()) return false;
  for (size_t i = 0; i < ranges->size(); i++) {
    const std::vector<uint8_t>& bytes = logged.writes[i];
    if (bytes.size() > (*ranges)[i].size()) return false;
    if (!bytes.empty() && !memory_.write((*ranges)[i].start, bytes)) return false;
  }
  return true;
}

SyscallAnswer SystemCalls::end(const Call& call, Outcome outcome, std::string detail) {
  return {Answer::Kind::ends, 0, {outcome, std::move(detail), call.nr}};
}

SyscallAnswer SystemCalls::by_class(const Call& call, const kernel::SyscallRow& row) {
  switch (row.syscall_class) {
    case kernel::SyscallClass::benign:
      return benign(call, row);
    case kernel::SyscallClass::output:
      return output(call, row);
    case kernel::SyscallClass::input:
      return input(call);
    case kernel::SyscallClass::misc:
      return misc(call);
    case kernel::SyscallClass::unsafe:
      return unsafe(call);
  }
  return end(call, Outcome::system_call);
}

// Made by the replica with the arguments as they are.
SyscallAnswer SystemCalls::execute(const Call& call) {
  const auto make = [&] {
    return call.remote.call(call.nr, call.args[0], call.args[1], call.args[2], call.args[3],
                            call.args[4], call.args[5]);
  };
  const auto made = make();
  if (!made) return end(call, Outcome::died, made.error().message);
  return value(*made);
}

SyscallAnswer SystemCalls::benign(const Call& call, const kernel::SyscallRow& row) {
  switch (call.nr) {
    case SYS_close:
      return close_descriptor(call);
    case SYS_close_range:
    case SYS_pipe:
    case SYS_pipe2:
    case SYS_socketpair:
      return end(call, Outcome::system_call);
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_fstatfs:
    case SYS_fgetxattr:
    case SYS_getsockname:
    case SYS_getpeername:
      return ask_about_file(call, static_cast<int>(call.args[0]));
    case SYS_munmap:
      return unmap(call);
    case SYS_rt_sigprocmask:
      return signal_mask(call);
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getppid:
      return identity(call);
    case SYS_getpriority:
      return call.args[0] == PRIO_PROCESS ? ask_about_thread(call, 1) : execute(call);
    case SYS_sched_getaffinity:
    case SYS_sched_getattr:
    case SYS_sched_getparam:
    case SYS_sched_getscheduler:
    case SYS_sched_rr_get_interval:
      return ask_about_thread(call, 0);
    case SYS_set_tid_address:
      call.thread.clear_child_tid = GuestAddr(call.args[0]);
      return value(call.thread.tid.value);
    case SYS_set_robust_list:
      return value(0);
    case SYS_sched_yield:
      return {Answer::Kind::yields, 0, {}};
    default:
      break;
  }
  if (takes_descriptor(call.nr)) {
    return ask_about_file(call, static_cast<int>(call.args[0]));
  }
  if (row.has(kernel::SyscallFlag::fd)) return new_descriptor(call);
  return execute(call);
}

SyscallAnswer SystemCalls::output(const Call& call, const kernel::SyscallRow& row) {
  switch (call.nr) {
    case SYS_ftruncate:
    case SYS_fallocate:
      changes_file(static_cast<int>(call.args[0]));
      return value(0);
    case SYS_write:
      return write_file(call, false, false);
    case SYS_writev:
      return write_file(call, false, true);
    case SYS_pwrite64:
      return write_file(call, true, false);
    case SYS_pwritev:
      return write_file(call, true, true);
    case SYS_pwritev2:
      return write_file(call, call.args[3] != UINT64_MAX, true);
    case SYS_sendto:
      return value(static_cast<int64_t>(call.args[2]));
    case SYS_sendmsg: {
      const auto header = memory_.read_value<msghdr>(GuestAddr(call.args[1]));
      if (!header) return value(-EFAULT);
      const GuestAddr vector(reinterpret_cast<uint64_t>(header->msg_iov));
      return value(bytes_in_vector(vector, header->msg_iovlen).value_or(-EFAULT));
    }
    default:
      return row.has(kernel::SyscallFlag::returns_count) ? end(call, Outcome::system_call) : value(0);
  }
}

SyscallAnswer SystemCalls::misc(const Call& call) {
  switch (call.nr) {
    case SYS_open:
    case SYS_openat:
      return open_file(call);
    case SYS_lseek:
      return seek(call);
    case SYS_fcntl:
      return fcntl(call);
    case SYS_mmap:
      return map(call);
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      return protect(call);
    case SYS_mremap:
      return remap(call);
    case SYS_madvise:
      return advise(call);
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return {Answer::Kind::yields, 0, {}};
    case SYS_clone:
    case SYS_clone3:
      return {Answer::Kind::new_thread, 0, {}};
    case SYS_rt_sigreturn:
      return {Answer::Kind::returns, 0, {}};
    case SYS_futex: {
      const auto answer = futexes_.call(call.thread, call.args);
      if (!answer) return end(call, Outcome::system_call, "a futex operation that is not emulated");
      return answer->waits ? Answer{Answer::Kind::waits, 0, {}} : value(answer->value);
    }
    case SYS_prctl:
      return is_harmless_prctl(call.args[0]) ? execute(call) : end(call, Outcome::system_call);
    case SYS_personality:
      return call.args[0] == kOnlyAsk ? execute(call) : end(call, Outcome::system_call);
    case SYS_prlimit64:
      return call.args[0] == 0 ? execute(call) : end(call, Outcome::system_call);
    case SYS_membarrier: {
      const bool asks = call.args[0] == MEMBARRIER_CMD_QUERY;
      return asks ? execute(call) : value(0);  // the replica has one kernel thread
    }
    case kRseq:
      return value(-ENOSYS);
    default:
      return end(call, Outcome::system_call);
  }
}

SyscallAnswer SystemCalls::unsafe(const Call& call) {
  switch (call.nr) {
    case SYS_exit:
      call.thread.state = GuestThread::State::finished;
      return {Answer::Kind::finished, 0, {}};
    case SYS_exit_group:
      return end(call, Outcome::exits);
    case SYS_ioctl:
      if (is_harmless(call.args[1])) return ask_about_file(call, static_cast<int>(call.args[0]));
      return end(call, Outcome::system_call);
    default:
      return end(call, Outcome::system_call);
  }
}

// The kernel thread's own mask is ours: it keeps everything out.
SyscallAnswer SystemCalls::signal_mask(const Call& call) {
  const auto how = static_cast<int>(call.args[0]);
  const uint64_t before = call.thread.signal_mask;
  if (call.args[1] != 0) {
    const auto set = memory_.read_value<uint64_t>(GuestAddr(call.args[1]));
    if (!set) return value(-EFAULT);
    switch (how) {
      case SIG_BLOCK:
        call.thread.signal_mask |= *set;
        break;
      case SIG_UNBLOCK:
        call.thread.signal_mask &= ~*set;
        break;
      case SIG_SETMASK:
        call.thread.signal_mask = *set;
        break;
      default:
        return value(-EINVAL);
    }
  }
  if (call.args[2] != 0 && !memory_.write_value(GuestAddr(call.args[2]), before)) {
    return value(-EFAULT);
  }
  return value(0);
}

// The replica's own priority and cores are not the program's. `which` argument is a thread's id: 0 is
// the one that asks, which the program has, too, unless it was made here.
SyscallAnswer SystemCalls::ask_about_thread(const Call& call, size_t which) {
  if (call.args[which] != 0) return execute(call);
  // One that began in the replica is as the process is.
  for (const Tid asked : {call.thread.tid, identity_.pid}) {
    Call of_program = call;
    of_program.args[which] = static_cast<uint64_t>(asked.value);
    const Answer answer = execute(of_program);
    if (answer.kind != Answer::Kind::value || answer.value != -ESRCH) return answer;
  }
  return end(call, Outcome::system_call, "the program has ended");
}

SyscallAnswer SystemCalls::identity(const Call& call) {
  if (call.nr == SYS_gettid) return value(call.thread.tid.value);
  const int64_t id = call.nr == SYS_getpid ? identity_.pid.value : identity_.parent_pid;
  return id < 0 ? end(call, Outcome::system_call) : value(id);
}

}  // namespace shadowprof::shadow
