// SPDX-License-Identifier: MIT
#include "inject/wake_timer.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace shadowprof::inject {

// The handler stays: a signal that is on its way finds it.
WakeTimer::~WakeTimer() {
  if (running_) ::timer_delete(timer_);
}

void WakeTimer::begin() {
  if (running_) return;
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  ::sigaction(SIGPROF, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGPROF);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  CHECK(::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0, "timer_create: {}",
        std::strerror(errno));
  running_ = true;
  constexpr itimerspec kEach{{0, kPeriod_ns}, {0, kPeriod_ns}};
  ::timer_settime(timer_, 0, &kEach, nullptr);
}

}  // namespace shadowprof::inject
