// SPDX-License-Identifier: MIT
//
// A thread on another core that works while it is told to, so that somebody can tell what that
// costs.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/start_thread.h"
#include "probe/own_cores.h"

namespace shadowprof::probe {

// Work is made in that thread, and called again and again.
template <typename Work>
class Neighbour {
 public:
  using Clock = std::chrono::steady_clock;

  // On a busy machine it may not get its core for long: after that time there is no answer worth a
  // wait.
  explicit Neighbour(Clock::duration patience) : deadline_(Clock::now() + patience) {}
  ~Neighbour() {
    tell(kGone);
    if (thread_.joinable()) thread_.join();
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  [[nodiscard]] bool start(size_t core) {
    return start_thread(thread_, [this, core] { live(core); });
  }
  bool late() const { return Clock::now() > deadline_; }
  // Returns when it does. False: it may not.
  [[nodiscard]] bool be_busy() {
    const unsigned before = rounds_;
    tell(kBusy);
    while (rounds_ == before) {
      if (late()) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // Likewise.
  bool be_idle() {
    tell(kIdle);
    while (!idle_ && !late()) std::this_thread::yield();
    return idle_;
  }
  // How often it has worked.
  unsigned rounds() const { return rounds_; }

 private:
  enum { kIdle, kBusy, kGone };

  void tell(int what) {
    told_ = what;
    told_.notify_one();
  }
  void live(size_t core) {
    (void)OwnCores::stay_on(core);
    Work work;
    while (told_ != kGone) {
      if (told_ == kBusy) {
        idle_ = false;
        work();
        rounds_++;
      } else {
        idle_ = true;
        told_.wait(kIdle);
      }
    }
  }

  const Clock::time_point deadline_;
  std::atomic<int> told_ = kIdle;
  std::atomic<unsigned> rounds_ = 0;
  std::atomic<bool> idle_ = false;
  std::thread thread_;
};

}  // namespace shadowprof::probe
