// SPDX-License-Identifier: MIT
//
// The trace buffers of a replica.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "shadow/emulator_space.h"
#include "shadow/executor.h"

namespace shadowprof::shadow {
namespace {

constexpr size_t kLeastChunkBytes = 4 * 4 * limits::kMaxRecordWords;
// That a replica records, roughly.
constexpr double kBytes_per_s = 1e9;

}  // namespace

bool Executor::tickets_done() const {
  return std::all_of(std::begin(tickets_), std::end(tickets_),
                     [&](uint64_t t) { return sink_.done(t); });
}

// Streams of threads: unique among those alive, and used again.
Tid Executor::stream(size_t thread) const {
  const auto slot = static_cast<size_t>((slot_->guest / limits::kPageBytes) & 0xffff);
  return Tid(static_cast<int32_t>(slot << 12 | thread));
}

trace::Chunk Executor::chunk(size_t thread, std::span<const trace::Word> words) const {
  return {.thread = stream(thread),
          .words = words,
          .process = calls_.program(),
          .guest = threads_[thread]->tid};
}

// Where in the buffer the next chunk begins: nearer to the end as the budget comes to its end, and
// with several threads, each of which is to have its turn.
void Executor::choose_start() {
  const size_t turns = may_go_native_ ? 1 : threads_.size();
  double bytes = kBytes_per_s * budget_.seconds;
  if (budget_.seconds == 0) {
    const auto left = budget_.instructions - std::min(budget_.instructions, counts_.instructions);
    bytes = static_cast<double>(left) * bytes_per_instruction_;
  } else if (turns == 1) {
    bytes = limits::kTraceBufferBytes;
  }
  const auto wanted =
      static_cast<uint64_t>(std::clamp(bytes / static_cast<double>(turns), double{kLeastChunkBytes},
                                       double{limits::kTraceBufferBytes}));
  start_ = slot_->buffer_end(buffer_) - (wanted & ~uint64_t{3});
  cursor_ = start_;
}

// Hands over what was recorded up to `cursor`; the other buffer is the present one then. False:
// that is still being read.
bool Executor::take_buffer(uint64_t cursor) {
  const size_t next = (buffer_ + 1) % emu::kBufferCount;
  if (!sink_.done(tickets_[next])) return false;
  drain(cursor);
  const bool counts = budget_.seconds == 0;
  if (counts && counts_.instructions >= budget_.instructions) end(Outcome::budget);
  return true;
}

void Executor::note_records(std::span<const trace::Word> words) {
  const trace::RecordSums sums = trace::sum_records(table_, words, counts_.shares);
  counts_.instructions += sums.instructions;
  if (may_go_native_) space_.pace().note(paced_, words);
  sample_words_ += words.size();
  sums_ += sums;
}

void Executor::drain(uint64_t cursor) {
  const uint64_t buffer_end = slot_->buffer_end(buffer_);
  SP_CHECK(cursor >= start_ && cursor <= buffer_end, "the trace cursor {:#x} is not in its buffer",
           cursor);
  const uint8_t* host = slot_->host;
  const auto* words = reinterpret_cast<const trace::Word*>(host + (start_ - slot_->guest));
  const size_t count = (cursor - start_) / sizeof(trace::Word);
  const uint64_t before = counts_.instructions;
  note_records({words, count});
  if (counts_.instructions > before) {
    bytes_per_instruction_ =
        static_cast<double>(cursor - start_) / static_cast<double>(counts_.instructions - before);
  }
  drained_ += cursor - start_;
  tickets_[buffer_] = sink_.submit(chunk(current_, {words, count}));
  space_.turn_windows(sink_);
  const uint64_t partial = std::min<uint64_t>(buffer_end - cursor, 4 * limits::kMaxRecordWords);
  const uint8_t* unfinished = host + (cursor - slot_->guest);
  current().unfinished.assign(unfinished, unfinished + partial);
  buffer_ = (buffer_ + 1) % emu::kBufferCount;
  choose_start();
}

// `guest`: the registers that the thread begins with.
void Executor::begin_trace(const Registers& guest) {
  current().traced = current().has_stream = true;
  CallStack stack;
  if (budget_.stacks) {
    ProcessMemory memory(tid());
    stack = space_.unwinder().unwind(memory, guest);
  }
  current().start = start_of_trace(budget_.sample_number, budget_.stacks ? &stack : nullptr);
  tickets_[buffer_] = sink_.submit(chunk(current_, current().start));
}

// In guest context. There is room for them.
void Executor::append(std::span<const trace::Word> words) {
  std::memcpy(slot_->host + (cursor_ - slot_->guest), words.data(), words.size_bytes());
  cursor_ += words.size_bytes();
}

// In guest context: for so much behind the cursor. False: not before the other buffer is read.
bool Executor::make_room(size_t bytes) {
  return cursor_ + bytes <= slot_->buffer_end(buffer_) || take_buffer(cursor_);
}

// What the present buffer holds up to `cursor`, and an end of the sample for each thread that has
// part in it; of the replica's last one, for all that have had part in any.
void Executor::finish_trace(uint64_t cursor, std::span<const trace::Word> last_words) {
  const auto* words = reinterpret_cast<const trace::Word*>(slot_->host + (start_ - slot_->guest));
  const size_t count = (cursor - start_) / sizeof(trace::Word);
  if (count > 0) {
    note_records({words, count});
    tickets_[buffer_] = sink_.submit(chunk(current_, {words, count}));
  }
  for (size_t i = 0; i < threads_.size(); i++) {
    GuestThread& thread = *threads_[i];
    const bool has_part = ending_ ? thread.has_stream : thread.traced;
    thread.traced = false;
    if (!has_part) continue;
    const uint64_t ticket = sink_.submit(chunk(i, last_words));
    tickets_[buffer_] = std::max(tickets_[buffer_], ticket);
  }
  start_ = cursor_ = cursor;
}

}  // namespace shadowprof::shadow
