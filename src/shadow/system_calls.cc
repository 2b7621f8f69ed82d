// SPDX-License-Identifier: MIT
#include "shadow/system_calls.h"

#include <asm/prctl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "kernel/namespaces.h"
#include "kernel/proc.h"
#include "trace/record.h"

namespace shadowprof::shadow {
namespace {

constexpr uint32_t kOnlyAsk = 0xffffffff;  // personality(2)
constexpr int kPrSetVma = 0x53564d41;

// arch_prctl(2): what only asks.
constexpr uint64_t kGetSupportedState = 0x1021;  // ARCH_GET_XCOMP_SUPP
constexpr uint64_t kGetPermittedState = 0x1022;
constexpr uint64_t kGetEnforcement = 0x3001;  // as C libraries ask for it; no kernel knows it
constexpr uint64_t kGetShadowStack = 0x5005;  // ARCH_SHSTK_STATUS

// Those that older kernels lack. Without arguments they fail.
bool kernel_has(long nr) {
  return ::syscall(nr, nullptr, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS;
}

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

}  // namespace

// The function of each handler, in the order of kernel::SyscallHandler.
constexpr SystemCalls::Handler SystemCalls::kHandlers[] = {
#define HANDLER(name, ...) &SystemCalls::name,
#include "kernel/syscall_handlers.inc"
#undef HANDLER
};

SyscallAnswer SystemCalls::answer(GuestThread& thread, const ptrace::Registers& registers,
                                  ptrace::RemoteSyscalls& remote) {
  Call call{thread,           static_cast<int>(registers.rax), {}, remote, registers.fs_base,
            registers.gs_base};
  for (size_t i = 0; i < 6; i++) call.args[i] = registers.syscall_argument(i);
  const kernel::SyscallRow* row = kernel::find_syscall(call.nr);
  if (!row) return end(call, Outcome::system_call, "a system call that is not in the table");
  has_executed_ = false;
  Answer made = (this->*kHandlers[static_cast<size_t>(row->handler)])(call);
  return log_ ? as_program(call, *row, std::move(made)) : made;
}

// The program's answer to the same call, if there is one and it is better than ours.
SyscallAnswer SystemCalls::as_program(const Call& call, const kernel::SyscallRow& row,
                                      Answer otherwise) {
  const bool ends =
      otherwise.kind == Answer::Kind::ends && (otherwise.ending.outcome == Outcome::input ||
                                               otherwise.ending.outcome == Outcome::system_call);
  if (!ends && otherwise.kind != Answer::Kind::value) return otherwise;
  LoggedCall logged;
  switch (log_->take(call.thread.tid, call.nr, call.args, logged)) {
    case InputLog::Taken::never:
      return otherwise;
    case InputLog::Taken::not_yet:
      return ends && row.kept != kernel::KeptCall::not_kept ? Answer{Answer::Kind::not_yet, 0, {}}
                                                            : otherwise;
    case InputLog::Taken::taken:
      break;
  }
  if (!ends) {
    const bool assumed = row.syscall_class == kernel::SyscallClass::output && !has_executed_;
    return assumed ? value(logged.result) : otherwise;
  }
  if (!write_back(call, logged)) {
    return end(call, Outcome::input, "it does something else than the program");
  }
  if (row.has(kernel::SyscallFlag::returns_fd) && logged.result >= 0) {
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
    const GuestAddr start = (*ranges)[i].start;
    if (bytes.empty()) continue;
    if (!can_be_written(call, {start, start + bytes.size()})) return false;
    if (!memory_.write(start, bytes)) return false;
  }
  return true;
}

SyscallAnswer SystemCalls::end(const Call& call, Outcome outcome, std::string detail) {
  return {Answer::Kind::ends, 0, {outcome, std::move(detail), call.nr}};
}

// Made by the replica with the arguments as they are. To shared memory, which is writable in the
// program only, the kernel writes nothing, and says so when it may have done all else: such a call
// cannot be made again.
SyscallAnswer SystemCalls::execute(const Call& call) {
  has_executed_ = true;
  const auto made = call.remote.call(call.nr, call.args[0], call.args[1], call.args[2],
                                     call.args[3], call.args[4], call.args[5]);
  if (!made) return end(call, Outcome::died, made.error().message);
  if (*made == -EFAULT && shared_.has_writable()) {
    return end(call, Outcome::system_call, "may write to shared memory");
  }
  return value(*made);
}

SyscallAnswer SystemCalls::make(const Call& call) {
  return execute(call);
}

SyscallAnswer SystemCalls::end_sample(const Call& call) {
  return end(call, Outcome::system_call);
}

SyscallAnswer SystemCalls::need_input(const Call& call) {
  return end(call, Outcome::input);
}

SyscallAnswer SystemCalls::assume_success(const Call&) {
  return value(0);
}

SyscallAnswer SystemCalls::assume_sent(const Call& call) {
  return value(static_cast<int64_t>(call.args[2]));
}

SyscallAnswer SystemCalls::assume_message(const Call& call) {
  const auto header = memory_.read_value<msghdr>(GuestAddr(call.args[1]));
  if (!header) return value(-EFAULT);
  const GuestAddr vector(reinterpret_cast<uint64_t>(header->msg_iov));
  return value(bytes_in_vector(vector, header->msg_iovlen));
}

SyscallAnswer SystemCalls::yield(const Call&) {
  return {Answer::Kind::yields, 0, {}};
}

SyscallAnswer SystemCalls::sleep(const Call& call) {
  return yield(call);
}

// A sleep, if it is about no descriptors and ends.
SyscallAnswer SystemCalls::poll(const Call& call) {
  return call.args[1] == 0 && static_cast<int>(call.args[2]) >= 0 ? yield(call) : need_input(call);
}

// The same; no time is left then.
SyscallAnswer SystemCalls::poll_with_mask(const Call& call) {
  if (call.args[1] != 0 || call.args[2] == 0) return need_input(call);
  const Answer told = give(call, GuestAddr(call.args[2]), timespec{});
  return told.kind == Answer::Kind::value && told.value == 0 ? yield(call) : told;
}

// struct timeval and struct timespec are of one size.
SyscallAnswer SystemCalls::select(const Call& call) {
  if (call.args[0] != 0 || call.args[4] == 0) return need_input(call);
  const Answer told = give(call, GuestAddr(call.args[4]), timespec{});
  return told.kind == Answer::Kind::value && told.value == 0 ? yield(call) : told;
}

// FS is the guest's own in the cache, too; GS is not, and is not set.
SyscallAnswer SystemCalls::segment_base(const Call& call) {
  switch (call.args[0]) {
    case ARCH_GET_FS:
      return give(call, GuestAddr(call.args[1]), call.fs_base);
    case ARCH_GET_GS:
      return give(call, GuestAddr(call.args[1]), call.gs_base);
    case ARCH_SET_FS: {
      if (call.args[1] >= machine::kFirstRefusedBase) return value(-EPERM);
      Answer answer = value(0);
      answer.fs_base = call.args[1];
      return answer;
    }
    case ARCH_GET_CPUID:
    case kGetShadowStack:
    case kGetSupportedState:
    case kGetPermittedState:
    case kGetEnforcement:
      return execute(call);
    default:
      return end_sample(call);
  }
}

SyscallAnswer SystemCalls::start_thread(const Call&) {
  return {Answer::Kind::new_thread, 0, {}};
}

SyscallAnswer SystemCalls::return_from_handler(const Call&) {
  return {Answer::Kind::returns, 0, {}};
}

SyscallAnswer SystemCalls::exit_thread(const Call& call) {
  call.thread.state = GuestThread::State::finished;
  return {Answer::Kind::finished, 0, {}};
}

SyscallAnswer SystemCalls::exit_process(const Call& call) {
  return end(call, Outcome::exits);
}

SyscallAnswer SystemCalls::futex(const Call& call) {
  const bool of_its_own = call.nr != SYS_futex;
  if (of_its_own && !kernel_has(call.nr)) return value(-ENOSYS);
  const auto answer = of_its_own ? futexes_.call_of_its_own(call.thread, call.nr, call.args)
                                 : futexes_.call(call.thread, call.args);
  if (!answer) return end(call, Outcome::system_call, "a futex operation that is not emulated");
  return answer->waits ? Answer{Answer::Kind::waits, 0, {}} : value(answer->value);
}

SyscallAnswer SystemCalls::process_option(const Call& call) {
  return is_harmless_prctl(call.args[0]) ? execute(call) : end_sample(call);
}

SyscallAnswer SystemCalls::personality(const Call& call) {
  return static_cast<uint32_t>(call.args[0]) == kOnlyAsk ? execute(call) : end_sample(call);
}

SyscallAnswer SystemCalls::limits(const Call& call) {
  return call.args[0] == 0 ? execute(call) : end_sample(call);
}

// A replica has none of the program's timers, and none of its own goes off.
SyscallAnswer SystemCalls::set_interval(const Call& call) {
  return call.args[2] == 0 ? value(0) : end_sample(call);
}

SyscallAnswer SystemCalls::set_timer(const Call& call) {
  return call.args[3] == 0 ? value(0) : end_sample(call);
}

// One that the replica has made is set and read for real: it sends no signals.
SyscallAnswer SystemCalls::set_timer_descriptor(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  return descriptors_.is_missing(fd) ? set_timer(call) : execute(call);
}

// The replica has one kernel thread.
SyscallAnswer SystemCalls::barrier(const Call& call) {
  return static_cast<int>(call.args[0]) == MEMBARRIER_CMD_QUERY ? execute(call) : value(0);
}

SyscallAnswer SystemCalls::control_device(const Call& call) {
  return is_harmless(call.args[1]) ? ask_about_file(call) : end_sample(call);
}

SyscallAnswer SystemCalls::clear_tid(const Call& call) {
  call.thread.clear_child_tid = GuestAddr(call.args[0]);
  return thread_id(call);
}

SyscallAnswer SystemCalls::robust_list(const Call&) {
  return value(0);
}

// The C library gives up a thread that is refused this after its parent was not. Threads that take
// turns interrupt one another at other places than the kernel would, and seldom.
SyscallAnswer SystemCalls::restartable(const Call& call) {
  constexpr int kUnregister = 1;       // RSEQ_FLAG_UNREGISTER
  struct Processor {                   // as struct rseq (linux/rseq.h) begins
    uint32_t at_start;
    uint32_t now;
  };
  const auto flags = static_cast<int>(call.args[2]);
  if ((flags & ~kUnregister) != 0) return value(-EINVAL);
  if (flags == kUnregister) return value(0);
  const auto number = static_cast<uint32_t>(std::max(0, ::sched_getcpu()));
  return give(call, GuestAddr(call.args[0]), Processor{number, number});
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
  return call.args[2] != 0 ? give(call, GuestAddr(call.args[2]), before) : value(0);
}

// Is the program in another PID namespace than we? The replica is where the program is.
bool SystemCalls::has_own_numbers() {
  if (!has_own_numbers_) {
    const auto ours = kernel::pid_namespace_of(Tid(::getpid()));
    const auto its = kernel::pid_namespace_of(replica_);
    has_own_numbers_ = ours && its && *ours != *its;
  }
  return *has_own_numbers_;
}

std::optional<int64_t> SystemCalls::own_number(Tid thread) {
  if (thread.value >= trace::Chunk::kFirstOfReplica || !has_own_numbers()) return thread.value;
  const auto known = own_numbers_.find(thread.value);
  if (known != own_numbers_.end()) return known->second;
  const auto status = kernel::read_status(thread);
  if (!status || status->innermost_pid.value == 0) return std::nullopt;
  return own_numbers_[thread.value] = status->innermost_pid.value;
}

// 0 is a parent that is not in the program's namespace.
std::optional<int64_t> SystemCalls::own_number_of_parent() {
  if (identity_.parent_pid < 0) return std::nullopt;
  if (identity_.parent_pid == 0 || !has_own_numbers()) return identity_.parent_pid;
  const Tid parent(static_cast<int32_t>(identity_.parent_pid));
  const auto its = kernel::pid_namespace_of(parent);
  const auto ours = kernel::pid_namespace_of(replica_);
  if (!its || !ours) return std::nullopt;
  return *its == *ours ? own_number(parent) : 0;
}

SyscallAnswer SystemCalls::told(const Call& call, std::optional<int64_t> number) const {
  return number ? value(*number)
                : end(call, Outcome::system_call, "a number that only the program knows");
}

// The replica's own priority and cores are not the program's. `which` argument is a thread's id: 0
// is the one that asks, which the program has, too, unless it was made here.
SyscallAnswer SystemCalls::ask_thread(const Call& call, size_t which) {
  if (call.args[which] != 0) return execute(call);
  // One that began in the replica is as the process is.
  for (const Tid asked : {call.thread.tid, identity_.pid}) {
    const auto number = own_number(asked);
    if (!number) continue;
    Call of_program = call;
    of_program.args[which] = static_cast<uint64_t>(*number);
    const Answer answer = execute(of_program);
    if (answer.kind != Answer::Kind::value || answer.value != -ESRCH) return answer;
  }
  return end(call, Outcome::system_call, "the program has ended");
}

SyscallAnswer SystemCalls::ask_about_thread(const Call& call) {
  return ask_thread(call, 0);
}

SyscallAnswer SystemCalls::ask_priority(const Call& call) {
  if (call.args[0] == PRIO_PROCESS) return ask_thread(call, 1);
  return call.args[0] == PRIO_PGRP && call.args[1] == 0 ? end_sample(call) : execute(call);
}

SyscallAnswer SystemCalls::process_id(const Call& call) {
  return told(call, own_number(identity_.pid));
}

SyscallAnswer SystemCalls::thread_id(const Call& call) {
  return told(call, own_number(call.thread.tid));
}

SyscallAnswer SystemCalls::parent_id(const Call& call) {
  return told(call, own_number_of_parent());
}

SyscallAnswer SystemCalls::process_group(const Call& call) {
  Call of_program = call;
  of_program.nr = SYS_getpgid;
  of_program.args = {};
  return ask_thread(of_program, 0);
}

}  // namespace shadowprof::shadow
