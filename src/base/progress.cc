// SPDX-License-Identifier: MIT
#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "base/line_eraser.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/start_thread.h"

namespace shadowprof {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience_ms{2000};
constexpr std::chrono::milliseconds kInterval_ms{500};
constexpr size_t kColumns = 79;

bool is_allowed = true;

void write_text(std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

void erase_progress() {
  write_text("\r\x1b[K");
}

}  // namespace

void set_progress(bool allowed) {
  is_allowed = allowed;
}

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (!is_allowed || verbosity() == Verbosity::quiet || ::isatty(STDERR_FILENO) != 1) return;
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  (void)start_thread(writer_, [this] { write_lines(); });  // without: there is no line
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Progress::~Progress() {
  end();
}

void Progress::end() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  writer_.join();
}

void Progress::set(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  is_due_ = false;
}

void Progress::write_lines() {
  const auto begun = steady_clock::now();
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_over_; };
  is_due_ = true;
  if (over_.wait_for(lock, kPatience_ms, is_over)) return;
  line_eraser = erase_progress;
  do {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begun);
    std::string line = fmt::format("shadowprof: {} s, {}", seconds.count(), printable(what_));
    if (line.size() > kColumns) line.resize(kColumns);
    write_text("\r" + line + "\x1b[K");
    is_due_ = true;
  } while (!over_.wait_for(lock, kInterval_ms, is_over));
  line_eraser = nullptr;
  erase_progress();
}

}  // namespace shadowprof
