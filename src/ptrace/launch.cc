// SPDX-License-Identifier: MIT
//
// The child between fork and execve may only make async-signal-safe calls: other threads of ours
// may have held locks at the time of the fork. Everything it needs is prepared before.
#include "ptrace/launch.h"

#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/check.h"
#include "base/unique_fd.h"
#include "ptrace/start_stack.h"
#include "ptrace/wait.h"

namespace shadowprof::ptrace {
namespace {

constexpr int kSignals = 64;

// What the child says through the pipe when it cannot execute.
struct ChildFailure {
  int error;
  enum class Step : int { personality, execute } step;
};

// The kernel's struct, because glibc's sigaction refuses the signals it uses itself (32 and 33),
// which we may nevertheless have inherited ignored.
struct KernelSigaction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  SignalMask mask;
};

long kernel_sigaction(int signal, const KernelSigaction* set, KernelSigaction* get) {
  return ::syscall(SYS_rt_sigaction, signal, set, get, sizeof(SignalMask));
}

SignalMask set_mask(SignalMask mask) {
  SignalMask old = 0;
  const long rc = ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &old, sizeof mask);
  SP_CHECK(rc == 0);
  return old;
}

struct Channel {
  UniqueFd child_end;
  UniqueFd our_end;
};

// A socket rather than a pipe, because writing to a dead reader must not raise SIGPIPE in us.
Result<Channel> make_channel() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return fail_errno(errno, "cannot make a channel to a new process");
  }
  return Channel{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

struct ChildPlan {
  const LaunchRequest& request;
  char** argv;
  char** environment;
  int channel;
  int our_end;
};

// All signals are blocked on entry, so no handler of ours runs in the child.
[[noreturn]] void run_child(const ChildPlan& plan) {
  ::close(plan.our_end);
  char go = 0;
  ssize_t n = ::read(plan.channel, &go, 1);
  if (n != 1) ::_exit(127);

  ChildFailure failure{0, ChildFailure::Step::personality};
  if (plan.request.fixed_addresses) {
    const int now = ::personality(0xffffffff);
    if (::personality(static_cast<unsigned>(now) | ADDR_NO_RANDOMIZE) < 0) failure.error = errno;
  }
  if (failure.error == 0) {
    for (int signal = 1; signal <= kSignals; ++signal) {
      if (signal == SIGKILL || signal == SIGSTOP) continue;
      const bool ignored = (plan.request.signals.ignored & mask_of(signal)) != 0;
      const KernelSigaction action{ignored ? SIG_IGN : SIG_DFL, 0, nullptr, 0};
      (void)kernel_sigaction(signal, &action, nullptr);
    }
    // With a fixed start time is not the kernel's.
    if (!plan.request.fixed_start) plan.request.signals.start_timers();
    set_mask(plan.request.signals.blocked);
    ::execve(plan.request.path.c_str(), plan.argv, plan.environment);
    failure = {errno, ChildFailure::Step::execute};
  }
  n = ::write(plan.channel, &failure, sizeof failure);
  ::_exit(127);
}

// Reports that do not concern us are passed on, so that the child lives and dies as if untraced.
bool pass_on(Tracee child, const WaitStatus& status) {
  if (status.kind() == WaitStatus::Kind::signal_stop) return child.cont_if_alive(status.signal());
  if (status.kind() == WaitStatus::Kind::group_stop) return child.listen_if_alive();
  return child.cont_if_alive();
}

// Until the exec event, or the death: then the status is returned.
WaitStatus await_exec(Tracee child) {
  for (;;) {
    const WaitOutcome outcome = wait_for(child.tid());
    if (outcome.kind == WaitOutcome::Kind::interrupted) continue;
    SP_CHECK(outcome.has_status(), "the child {} was reaped by somebody else", child.tid().value);
    if (outcome.status.is_dead() || outcome.status.is_event(StopEvent::exec)) {
      return outcome.status;
    }
    (void)pass_on(child, outcome.status);
  }
}

void kill_and_reap(Tid child) {
  ::kill(child.value, SIGKILL);
  for (;;) {
    const WaitOutcome outcome = wait_for(child);
    if (outcome.kind == WaitOutcome::Kind::no_children) return;
    if (outcome.has_status() && outcome.status.is_dead()) return;
    if (outcome.has_status()) (void)Tracee(child).cont_if_alive();
  }
}

tl::unexpected<Error> start_failure(const LaunchRequest& request, int channel,
                                    const WaitStatus& fate) {
  ChildFailure failure{};
  if (::read(channel, &failure, sizeof failure) == sizeof failure) {
    if (failure.step == ChildFailure::Step::personality) {
      return fail_errno(failure.error, "cannot switch off address randomisation for {}",
                        request.path);
    }
    return fail_errno(failure.error, "cannot execute {}", request.path);
  }
  return fail("{} did not start: {}", request.path, to_string(fate));
}

// What the program finds on its stack.
Status prepare_start(Tracee child, const LaunchRequest& request) {
  const machine::CpuModel* processor = request.processor;
  if (request.fixed_start)
    return fix_start(child, processor ? *processor : machine::CpuModel::host(), request.told_user);
  return processor ? tell_processor(child, *processor) : Status();
}

}  // namespace

InheritedSignals InheritedSignals::capture() {
  InheritedSignals out;
  const long rc =
      ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, nullptr, &out.blocked, sizeof out.blocked);
  SP_CHECK(rc == 0);
  for (int signal = 1; signal <= kSignals; ++signal) {
    KernelSigaction action{};
    if (kernel_sigaction(signal, nullptr, &action) == 0 && action.handler == SIG_IGN) {
      out.ignored |= mask_of(signal);
    }
  }
  return out;
}

InheritedSignals& InheritedSignals::take_timers() {
  taken_at = std::chrono::steady_clock::now();
  for (size_t which = 0; which < timers.size(); which++) {
    const itimerval stopped{};
    ::setitimer(static_cast<int>(which), &stopped, &timers[which]);
  }
  return *this;
}

void InheritedSignals::start_timers() const {
  using std::chrono::microseconds;
  for (size_t which = 0; which < timers.size(); which++) {
    itimerval timer = timers[which];
    if (!timerisset(&timer.it_value)) continue;
    if (which == ITIMER_REAL) {
      const auto since = std::chrono::steady_clock::now() - taken_at;
      const auto left = std::max(std::chrono::seconds(timer.it_value.tv_sec) +
                                     microseconds(timer.it_value.tv_usec) -
                                     std::chrono::duration_cast<microseconds>(since),
                                 microseconds(1));
      timer.it_value = {left / std::chrono::seconds(1),
                        left % std::chrono::seconds(1) / microseconds(1)};
    }
    ::setitimer(static_cast<int>(which), &timer, nullptr);
  }
}

Result<Tracee> launch(const LaunchRequest& request, IdSpace* ids) {
  SP_CHECK(!request.argv.empty());
  std::vector<char*> argv = pointers_to(request.argv);
  std::vector<char*> environment = pointers_to(request.environment);
  SP_ASSIGN(Channel channel, make_channel());
  const ChildPlan plan{request, argv.data(), environment.data(), channel.child_end.get(),
                       channel.our_end.get()};

  const SignalMask ours = set_mask(~SignalMask{0});
  const pid_t pid = ids ? ids->fork() : ::fork();
  if (pid == 0) run_child(plan);
  const int fork_error = errno;
  set_mask(ours);
  if (pid < 0) return fail_errno(fork_error, "cannot start a process");
  channel.child_end.reset();

  Result<Tracee> child = seize(Tid(pid), request.options | TraceOptions::report_exec);
  if (!child) {
    kill_and_reap(Tid(pid));
    return child;
  }
  const char go = 1;
  // EPIPE: it is dead, which is seen below.
  if (::send(channel.our_end.get(), &go, 1, MSG_NOSIGNAL) != 1 && errno != EPIPE) {
    const int error = errno;
    kill_and_reap(Tid(pid));
    return fail_errno(error, "cannot let {} start", request.path);
  }
  const WaitStatus fate = await_exec(*child);
  if (fate.is_dead()) return start_failure(request, channel.our_end.get(), fate);
  const Status prepared = prepare_start(*child, request);
  if (!prepared) {
    kill_and_reap(Tid(pid));
    return tl::unexpected(prepared.error());
  }
  return child;
}

}  // namespace shadowprof::ptrace
