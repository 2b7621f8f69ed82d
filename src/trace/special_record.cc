// SPDX-License-Identifier: MIT
#include "trace/special_record.h"

namespace shadowprof::trace {
namespace {

constexpr size_t kNumberWords = 2;

uint64_t pair_at(std::span<const Word> words, size_t at) {
  return words[at] | static_cast<uint64_t>(words[at + 1]) << 32;
}

}  // namespace

SampleStart::SampleStart(std::span<const Word> record) {
  const auto payload = record.subspan(1);
  if (payload.size() < kNumberWords) return;
  number_ = pair_at(payload, 0);
  stack_ = payload.subspan(kNumberWords);
}

SampleStart::Caller SampleStart::caller(size_t i) const {
  const uint64_t word = pair_at(stack_, 1 + 2 * i);
  return {word & ~StackStart::kExactCaller, (word & StackStart::kExactCaller) != 0};
}

std::optional<SampleEnd> sample_end_of(std::span<const Word> record) {
  if (record.size() < 2) return std::nullopt;
  return SampleEnd{static_cast<EndReason>(record[1])};
}

std::optional<GapReason> gap_of(std::span<const Word> record) {
  if (record.size() < 2) return std::nullopt;
  const auto reason = static_cast<GapReason>(record[1]);
  switch (reason) {
    case GapReason::signal_delivered:
    case GapReason::signal_returned:
    case GapReason::native:
    case GapReason::lost:
      return reason;
  }
  return std::nullopt;
}

}  // namespace shadowprof::trace
