// SPDX-License-Identifier: MIT
#include "trace/record.h"

namespace shadowprof::trace {

const char* to_string(GapReason r) {
  switch (r) {
    case GapReason::signal_delivered: return "signal_delivered";
    case GapReason::signal_returned: return "signal_returned";
    case GapReason::native: return "native";
    case GapReason::lost: return "lost";
  }
  return "?";
}

const char* to_string(EndReason r) {
  switch (r) {
    case EndReason::exited: return "exited";
    case EndReason::executed: return "executed";
    case EndReason::killed: return "killed";
    case EndReason::left_engine: return "left_engine";
    case EndReason::budget: return "budget";
    case EndReason::shadow_ended: return "shadow_ended";
    case EndReason::pauses: return "pauses";
    case EndReason::left_region: return "left_region";
  }
  return "?";
}

Result<std::optional<Record>> Reader::next() {
  if (at_ >= words_.size()) return std::nullopt;
  const size_t offset = at_;
  const Word head = words_[offset];
  size_t length = 0;
  if (is_special(head)) {
    const auto kind = head & 0xff;
    if (kind < static_cast<Word>(SpecialKind::sample_start) ||
        kind > static_cast<Word>(SpecialKind::sample_end)) {
      at_ = words_.size();
      return fail("trace word {}: unknown special record {:#x}", offset, head);
    }
    length = special_length(head);
  } else {
    if (head >= table_.run_count()) {
      at_ = words_.size();
      return fail("trace word {}: run {} is not in the table of {}", offset, head,
                  table_.run_count());
    }
    length = table_.run(RunId(head)).words;
  }
  if (length == 0 || length > words_.size() - offset) {
    at_ = words_.size();
    return fail("trace word {}: a record of {} words in a chunk of {}", offset, length,
                words_.size());
  }
  at_ = offset + length;
  return Record{offset, words_.subspan(offset, length)};
}

}  // namespace shadowprof::trace
