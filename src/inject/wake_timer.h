// SPDX-License-Identifier: MIT
//
// A wait for reports that may last for ever is looked at now and then: it ends with EINTR.
#pragma once

#include <ctime>

namespace shadowprof::inject {

class WakeTimer {
 public:
  WakeTimer() = default;
  ~WakeTimer();
  WakeTimer(const WakeTimer&) = delete;
  WakeTimer& operator=(const WakeTimer&) = delete;

  // From now on the calling thread's waits end about every kPeriod_ns.
  void begin();

  static constexpr long kPeriod_ns = 10'000'000;

 private:
  bool running_ = false;
  timer_t timer_{};
};

}  // namespace shadowprof::inject
