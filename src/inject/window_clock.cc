// SPDX-License-Identifier: MIT
#include "inject/window_clock.h"

#include <csignal>
#include <utility>

namespace shadowprof::inject {
namespace {

constexpr uint32_t kWindow_us = 2000;

volatile sig_atomic_t ticked = 0;

void note_tick(int) {
  ticked = 1;
}

}  // namespace

Status WindowClock::prepare() {
  take_interruptions(SIGVTALRM, note_tick);
  SP_ASSIGN(ThreadTimer timer, ThreadTimer::create(SIGVTALRM));
  timer_.emplace(std::move(timer));
  return {};
}

void WindowClock::begin(uint32_t window_us) {
  if (!std::exchange(runs_, true)) timer_->every(1000L * (window_us == 0 ? kWindow_us : window_us));
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
