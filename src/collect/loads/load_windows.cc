// SPDX-License-Identifier: MIT
#include "collect/loads/load_windows.h"

#include <algorithm>

#include "base/limits.h"

namespace shadowprof::collect {

LoadWindows::LoadWindows(const trace::BlockTable& table, trace::RunMailbox* mailbox,
                         uint64_t warm_up, bool keep_records)
    : table_(table),
      mailbox_(mailbox),
      warm_up_(warm_up),
      keep_records_(keep_records),
      seen_(limits::kMaxBlocks) {}

// An answer counts from the next chunk on that was submitted after it.
void LoadWindows::begin_chunk() {
  chunks_++;
  if (mailbox_ == nullptr) return;
  const auto heard = mailbox_->take_answers();
  answers_.insert(answers_.end(), heard.begin(), heard.end());
  std::erase_if(answers_, [&](const trace::RunMailbox::Answer& answer) {
    if (answer.chunks >= chunks_) return false;
    Seen& seen = seen_[table_.run(answer.plain).first_block.value];
    seen.plain_run = std::max(seen.plain_run, answer.plain.value);
    return true;
  });
}

void LoadWindows::tell(RunId run, Seen& seen) {
  if (mailbox_->wants_all()) return;
  seen.told = is_told_ = true;
  mailbox_->put({run, keep_records_});
}

}  // namespace shadowprof::collect
