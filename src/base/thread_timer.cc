// SPDX-License-Identifier: MIT
#include "base/thread_timer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace shadowprof {

void take_interruptions(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART
  ::sigaction(signal, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
}

Result<ThreadTimer> ThreadTimer::create(int signal) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
    return fail_errno(errno, "cannot make a timer (see ulimit -i)");
  return ThreadTimer(timer);
}

ThreadTimer::~ThreadTimer() {
  if (timer_) ::timer_delete(*timer_);
}

void ThreadTimer::set(long first_ns, long period_ns) {
  const itimerspec times{{0, period_ns}, {0, first_ns}};
  ::timer_settime(*timer_, 0, &times, nullptr);
}

}  // namespace shadowprof
