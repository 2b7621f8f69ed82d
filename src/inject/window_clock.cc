// SPDX-License-Identifier: MIT
#include "inject/window_clock.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace shadowprof::inject {
namespace {

constexpr long kTick_ns = 2'000'000;

volatile sig_atomic_t ticked = 0;

void note_tick(int) {
  ticked = 1;
}

}  // namespace

// The handler stays: a tick that is on its way finds it.
WindowClock::~WindowClock() {
  if (running_) ::timer_delete(timer_);
}

void WindowClock::begin() {
  if (running_) return;
  struct sigaction action {};
  action.sa_handler = note_tick;  // without SA_RESTART: a wait ends with EINTR
  ::sigaction(SIGVTALRM, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGVTALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  CHECK(::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0, "timer_create: {}",
        std::strerror(errno));
  running_ = true;
  constexpr itimerspec kPeriod{{0, kTick_ns}, {0, kTick_ns}};
  ::timer_settime(timer_, 0, &kPeriod, nullptr);
}

bool WindowClock::has_ticked() {
  if (ticked == 0) return false;
  ticked = 0;
  return true;
}

bool WindowClock::draw(uint32_t one_in) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return open_ = (random_ >> 32) % one_in == 0;
}

}  // namespace shadowprof::inject
