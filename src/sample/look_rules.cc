// SPDX-License-Identifier: MIT
#include "sample/look_rules.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "plan/jitter.h"

namespace shadowprof::sample {
namespace {

// As the clock's in processor time, where the budget pays for it.
constexpr double kShortestPeriod_s = 0.005;
constexpr double kLongestPeriod_s = 1;
// Until one was taken.
constexpr double kFirstPrice_s = 40e-6;
// A price is the mean of some so many looks.
constexpr double kLooksRatio = 32;
// What looks may take us, of a processor's time: to ask hundreds of threads takes long.
constexpr double kOurShare = 0.01;

// syscall; int 0x80 is not met in 64-bit code.
constexpr uint8_t kSystemCall[] = {0x0f, 0x05};

bool is_prefix(uint8_t byte) {
  return byte == 0x66 || byte == 0x67 || (byte & 0xf0) == 0x40 || byte == 0xf2 || byte == 0xf3;
}

// movs, cmps, stos, lods, scas with rep or repne.
bool is_repeated_string(std::span<const uint8_t> code) {
  bool repeats = false;
  size_t at = 0;
  for (; at < code.size() && is_prefix(code[at]); at++)
    repeats = repeats || code[at] == 0xf2 || code[at] == 0xf3;
  if (!repeats || at == code.size()) return false;
  const uint8_t opcode = code[at];
  return (opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf);
}

bool begins_page(uint64_t address) {
  return address % limits::kPageBytes == 0;
}

}  // namespace

LookMoments::LookMoments(double budget_share, uint64_t seed)
    : budget_share_(budget_share), random_(seed), price_s_(kFirstPrice_s) {}

double LookMoments::period_s() const {
  return std::clamp(std::max(price_s_ / budget_share_, ours_s_ / kOurShare), kShortestPeriod_s,
                    kLongestPeriod_s);
}

void LookMoments::begin(double now) {
  last_s_ = now;
  next_s_ = now + period_s() * plan::jitter(random_);
}

double LookMoments::take(double now) {
  return now - std::exchange(last_s_, now);
}

void LookMoments::paid(double stopped_s, double ours_s, double now) {
  price_s_ += (stopped_s - price_s_) / kLooksRatio;
  ours_s_ += (ours_s - ours_s_) / kLooksRatio;
  next_s_ = now + period_s() * plan::jitter(random_);
}

bool had_processor(const Asked& asked) {
  if (asked.at_stop.runs <= asked.before.runs) return true;
  const uint64_t waited =
      asked.at_stop.waited - std::min(asked.at_stop.waited, asked.before.waited);
  const bool since = 1e-9 * static_cast<double>(waited) <= asked.since_moment_s;
  return since && (asked.was_asleep || asked.may_lose_it);
}

bool kernel_worked(const machine::Registers& registers, const CodeAround& code) {
  if (registers.in_syscall()) return true;
  if (registers.eflags & machine::flags::kResume) {
    return !is_repeated_string(code.after) || begins_page(registers.rdi) ||
           begins_page(registers.rsi);
  }
  // Interrupts wait while the kernel leaves: they hit the first instruction behind it.
  return std::ranges::equal(code.before, kSystemCall);
}

}  // namespace shadowprof::sample
