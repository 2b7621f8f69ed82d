// SPDX-License-Identifier: MIT
#include "cli/front.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/die_with_parent.h"
#include "base/log.h"
#include "sample/host.h"

namespace shadowprof::cli {
namespace {

std::atomic<pid_t> worker{0};
std::atomic<const profile::Exit*> worker_end{nullptr};

// Ctrl-C and ctrl-\ reach the whole process group without us; what somebody sends to us does not.
// With who has sent it (sample::sender_of).
void pass_on(int signal, siginfo_t* info, void*) {
  if (const profile::Exit* end = worker_end) end_like(*end);  // nothing is left to do
  const int saved = errno;
  const bool is_from_terminal = info->si_code > 0 && (signal == SIGINT || signal == SIGQUIT);
  sigval sender{};
  sender.sival_int = info->si_code > 0 ? 0 : info->si_pid;
  if (worker > 0 && !is_from_terminal && ::sigqueue(worker, signal, sender) != 0)
    ::kill(worker, signal);  // too many are pending
  errno = saved;
}

// The program is of our process group: what it sends to all of that must not end us before it. The
// worker takes SIGUSR1 for our own death, and looks.
void prepare_front_signals() {
  sample::ignore_group_signals();
  for (int signal : {SIGPIPE, SIGXCPU, SIGXFSZ}) ::signal(signal, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, sample::kDumpWanted})
    ::sigaction(signal, &action, nullptr);
}

}  // namespace

void end_like(const profile::Exit& end) {
  if (end.signalled) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(end.value, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, end.value);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(end.value);
    ::_exit(128 + end.value);
  }
  ::_exit(end.value);
}

void run_behind_front(const std::function<int()>& work, const Meanwhile& meanwhile,
                      const std::function<void()>& afterwards) {
  // Blocked until both sides know what to do with them.
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t front = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    if (!die_with_parent(front, sample::kFrontDied)) ::_exit(0);
    sample::note_front(Tid(front));
    const sigset_t awaited = sample::awaited_signals();
    sigset_t mask = before;
    sigorset(&mask, &before, &awaited);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::_exit(work());
  }
  if (child < 0) {
    // Without a front, then.
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::_exit(work());
  }
  worker = child;
  prepare_front_signals();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  const auto is_over = [child] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == child;
  };
  if (meanwhile) meanwhile(is_over);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  worker = 0;
  static const profile::Exit end = WIFSIGNALED(status) ? profile::Exit{true, WTERMSIG(status)}
                                                       : profile::Exit{false, WEXITSTATUS(status)};
  worker_end = &end;
  if (afterwards) afterwards();
  end_like(end);
}

}  // namespace shadowprof::cli
