// SPDX-License-Identifier: MIT
//
// What special records say (record.h), told to whoever folds a trace. All read them by the same
// rules:
//
//   take_special(words, say)     the record's words; 0: the chunk is corrupt
//        ├──▶ say(SampleStart)   a thread begins, perhaps in the middle
//        ├──▶ say(SampleEnd)     what comes next is another one, or what comes much later
//        └──▶ say(GapReason)     what follows is not the successor of what was before
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "trace/record.h"

namespace shadowprof::trace {

class SampleStart {
 public:
  struct Caller {
    uint64_t address = 0;   // where it goes on
    bool is_exact = false;  // no return address: a signal interrupted it there
  };

  // With what StackStart describes behind the number, perhaps.
  explicit SampleStart(std::span<const Word> record);

  // 0: it says none. It is another thread of the sample before.
  uint64_t number() const { return number_; }
  bool tells_stack() const { return !stack_.empty(); }
  // The last caller is the thread's first function.
  bool is_whole() const { return tells_stack() && (stack_[0] & StackStart::kWhole) != 0; }
  // The innermost is the first.
  size_t callers() const { return tells_stack() ? (stack_.size() - 1) / 2 : 0; }
  Caller caller(size_t i) const;

 private:
  uint64_t number_ = 0;
  std::span<const Word> stack_;  // flags, and two words for each caller
};

struct SampleEnd {
  EndReason reason;
  // Is what was sampled since the last such end one observation?
  bool ends_observation() const { return reason != EndReason::pauses; }
};

std::optional<SampleEnd> sample_end_of(std::span<const Word> record);
std::optional<GapReason> gap_of(std::span<const Word> record);

// `words` begin with a special record.
template <typename Say>
size_t take_special(std::span<const Word> words, Say&& say) {
  const size_t length = special_length(words[0]);
  if (length == 0 || length > words.size()) return 0;
  const std::span<const Word> record = words.first(length);
  switch (special_kind(words[0])) {
    case SpecialKind::sample_start:
      say(SampleStart(record));
      return length;
    case SpecialKind::sample_end: {
      const auto end = sample_end_of(record);
      if (end) say(*end);
      return end ? length : 0;
    }
    case SpecialKind::gap: {
      const auto reason = gap_of(record);
      if (reason) say(*reason);
      return reason ? length : 0;
    }
  }
  return 0;
}

}  // namespace shadowprof::trace
