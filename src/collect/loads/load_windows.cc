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

void LoadWindows::begin_chunk() {
  chunks_++;
  if (mailbox_ == nullptr) return;
  answers_.hear(*mailbox_, chunks_, [&](RunId plain) {
    Seen& seen = seen_[table_.run(plain).first_block.value];
    seen.plain_run = std::max(seen.plain_run, plain.value);
  });
}

void LoadWindows::tell(RunId run, Seen& seen) {
  if (mailbox_->wants_all()) return;
  seen.told = is_told_ = true;
  mailbox_->put({run, keep_records_});
}

}  // namespace shadowprof::collect
