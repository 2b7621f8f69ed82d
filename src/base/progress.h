// SPDX-License-Identifier: MIT
//
// One line on standard error that says how far something is that takes longer than two seconds:
//
//   shadowprof: 12 s, merging 30 of 100
//
// It is written twice a second, and erased at the end and before any other line of ours. There is
// none where standard error is no terminal, with -q, or where set_progress() has forbidden it: then
// nothing is done and no thread is started. The thread that writes it blocks all signals, so that
// those who wait for signals get them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace shadowprof {

// Whoever shares the terminal with a program that writes there forbids it.
void set_progress(bool allowed);

class Progress {
 public:
  // `what` is being done.
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool is_shown() const { return writer_.joinable(); }
  // A new text would be seen: for those to whom making one costs something.
  bool is_due() const { return is_due_.load(std::memory_order_relaxed); }
  void set(std::string what);
  // Before standard output is written, which may be the same terminal.
  void end();

 private:
  void write_lines();

  std::atomic<bool> is_due_ = false;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::string what_;
  std::thread writer_;  // not joinable: there is no line
};

}  // namespace shadowprof
