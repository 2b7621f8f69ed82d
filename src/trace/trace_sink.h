// SPDX-License-Identifier: MIT
//
// Where full trace buffers go. The words stay as they are until wait(ticket) has returned.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/record.h"

namespace shadowprof::trace {

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  uint64_t submit(const Chunk& chunk) {
    submitted_++;
    return take(chunk);
  }
  // How many chunks, up to now.
  uint64_t submitted() const { return submitted_; }
  virtual void wait(uint64_t ticket) = 0;
  virtual bool done(uint64_t ticket) = 0;

 private:
  // The answer is the chunk's ticket.
  virtual uint64_t take(const Chunk& chunk) = 0;

  uint64_t submitted_ = 0;
};

// The whole of a thread's part in a burst, whose records are `words`, behind the record that begins
// a sample: written before this returns.
inline void submit_burst(TraceSink& sink, Tid thread, std::span<const Word> start,
                         std::vector<Word>& words) {
  const auto end = sample_end(EndReason::left_engine);
  words.insert(words.begin(), start.begin(), start.end());
  words.insert(words.end(), end.begin(), end.end());
  sink.wait(sink.submit({thread, words}));
}

}  // namespace shadowprof::trace
