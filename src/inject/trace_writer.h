// SPDX-License-Identifier: MIT
//
// What we write into threads' traces ourselves, and the way of full buffers to the collectors.
//
//   translated code ──records──▶ the thread's buffer ──drain()──▶ the sink
//   begin(), ran(), gap(), end() ──▶ ┘
//
// A thread's cursor is its own while it is in the cache; GuestThread::cursor is valid, and used
// here, while it is in guest context. A buffer that was handed over is written again only when the
// sink is done with it. Where no trace is recorded, nothing of this happens, but ends are counted.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "inject/guests.h"
#include "trace/record.h"
#include "trace/trace_sink.h"

namespace shadowprof::inject {

class TraceWriter {
 public:
  // `sink` outlives it.
  TraceWriter(trace::TraceSink& sink, bool records) : sink_(sink), records_(records) {}

  // Thread ids come again; the number keeps the threads apart that had the same one.
  void begin(GuestThread& t, uint64_t number);
  void ran(GuestThread& t, RunId run);
  void gap(GuestThread& t, trace::GapReason reason);
  void end(GuestThread& t, trace::EndReason reason);
  // Its trace was ended for this reason, and goes on in another one: that is no end.
  void take_back_end(trace::EndReason reason);

  // Hands the filled part of the buffer to the collectors, and goes on in the other one. A record
  // that was being written moves along.
  void drain(GuestThread& t);
  // For all that was handed over of it.
  void wait(const GuestThread& t);

  // Threads by how their traces ended.
  const std::map<trace::EndReason, uint64_t>& ended() const { return ended_; }

 private:
  void append(GuestThread& t, std::span<const trace::Word> words);

  trace::TraceSink& sink_;
  bool records_;
  std::map<trace::EndReason, uint64_t> ended_;
};

}  // namespace shadowprof::inject
