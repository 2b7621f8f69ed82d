// SPDX-License-Identifier: MIT
#include "inject/trace_writer.h"

#include <x86intrin.h>

#include <cstring>

#include "base/log.h"

namespace shadowprof::inject {

void TraceWriter::drain(GuestThread& t) {
  const uint64_t start = t.slot->buffer_guest(t.buffer);
  const uint64_t end = t.slot->buffer_end(t.buffer);
  SP_CHECK(t.cursor >= start && t.cursor <= end, "the trace cursor {:#x} is not in its buffer",
           t.cursor);
  const size_t used = t.cursor - start;
  const size_t partial = end - t.cursor;
  uint32_t* words = t.slot->buffer_host(t.buffer);
  t.tickets[t.buffer] = sink_.submit(
      {t.tracee.tid(), {words, used / sizeof(trace::Word)}, t.process->pid, __rdtsc()});
  const size_t next = (t.buffer + 1) % emu::kBufferCount;
  sink_.wait(t.tickets[next]);
  if (partial <= 4 * limits::kMaxRecordWords) {
    std::memcpy(t.slot->buffer_host(next), reinterpret_cast<uint8_t*>(words) + used, partial);
  }
  t.buffer = next;
  t.cursor = t.slot->buffer_guest(next);
}

void TraceWriter::wait(const GuestThread& t) {
  for (const uint64_t ticket : t.tickets) sink_.wait(ticket);
}

// The thread is stopped in guest context.
void TraceWriter::append(GuestThread& t, std::span<const trace::Word> words) {
  if (!records_) return;
  if (t.cursor + words.size_bytes() > t.slot->buffer_end(t.buffer)) drain(t);
  const size_t offset = (t.cursor - t.slot->buffer_guest(t.buffer)) / sizeof(trace::Word);
  std::memcpy(t.slot->buffer_host(t.buffer) + offset, words.data(), words.size_bytes());
  t.cursor += words.size_bytes();
}

void TraceWriter::begin(GuestThread& t, uint64_t number) {
  if (!records_) return;
  t.cursor = t.slot->buffer_guest(0);
  append(t, trace::sample_start(number));
}

void TraceWriter::ran(GuestThread& t, RunId run) {
  const trace::Word word = run.value;
  append(t, {&word, 1});
}

void TraceWriter::gap(GuestThread& t, trace::GapReason reason) {
  append(t, trace::gap(reason));
}

void TraceWriter::end(GuestThread& t, trace::EndReason reason) {
  ended_[reason]++;
  if (!records_) return;
  if (reason == trace::EndReason::killed) {
    // What the present buffer holds is lost: how much of it there is, only the thread knew.
    t.cursor = t.slot->buffer_guest(t.buffer);
    gap(t, trace::GapReason::lost);
  }
  append(t, trace::sample_end(reason));
  drain(t);
}

void TraceWriter::take_back_end(trace::EndReason reason) {
  if (--ended_[reason] == 0) ended_.erase(reason);
}

}  // namespace shadowprof::inject
