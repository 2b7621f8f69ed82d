// SPDX-License-Identifier: MIT
#include "sample/full_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <utility>

namespace shadowprof::sample {
namespace {

constexpr long kLook_ns = 500'000'000;
constexpr double kShortestRate_s = 0.9;  // the rate is of about a second

}  // namespace

std::string count_in_words(double count) {
  constexpr const char* kWords[] = {"", " thousand", " million", " billion", " trillion"};
  size_t word = 0;
  for (; count >= 999.5 && word + 1 < std::size(kWords); word++) count /= 1000;
  const int digits = word == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", count, digits, kWords[word]);
}

FullProgress::FullProgress(std::function<uint64_t()> so_far)
    : so_far_(std::move(so_far)), looked_(std::chrono::steady_clock::now()) {
  take_interruptions(SIGPROF, [](int) {});
  auto timer = ThreadTimer::create(SIGPROF);
  if (!timer) return;  // the numbers are those of the program's own stops
  timer_.emplace(std::move(*timer));
  timer_->every(kLook_ns);
}

void FullProgress::look() {
  if (!progress_.is_due()) return;
  const uint64_t now = so_far_();
  if (now == 0) return;
  const auto moment = std::chrono::steady_clock::now();
  const double passed_s = std::chrono::duration<double>(moment - looked_).count();
  if (passed_s >= kShortestRate_s) {
    per_s_ = static_cast<double>(now - std::min(before_, now)) / passed_s;
    before_ = now;
    looked_ = moment;
  }
  progress_.set(fmt::format("translator: {} instructions, {}/s",
                            count_in_words(static_cast<double>(now)), count_in_words(per_s_)));
}

}  // namespace shadowprof::sample
