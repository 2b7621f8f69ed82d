// SPDX-License-Identifier: MIT
//
// Hands trace chunks from the tracer's thread to a collector thread without copying them. The
// buffers belong to the tracer (they are shared with the profiled program): a ticket says when one
// may be written again. Chunks are consumed in the order of submission.
//
//   Ticket t = pipeline.submit({tid, words});
//   ... fill another buffer ...
//   pipeline.wait(t);          // now `words` may be overwritten
//   pipeline.finish(profile);  // after the last chunk
//
// The queue is bounded: submit() waits while it is full, so a slow collector slows the tracer and
// not the machine's memory. Without collectors everything is discarded and no thread is made.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collect/collector.h"
#include "trace/record.h"

namespace shadowprof::collect {

struct Ticket {
  uint64_t number = 0;  // 0: nothing to wait for
};

class Pipeline {
 public:
  explicit Pipeline(std::vector<std::unique_ptr<Collector>> collectors, size_t max_queued = 16);
  // Consumes what was submitted, then drops the collectors' results unless finish() was called.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The chunk's words must stay as they are until its ticket is done. One submitting thread. Where
  // no thread may be made it is consumed at once.
  Ticket submit(const trace::Chunk& chunk);
  bool done(Ticket ticket) const;
  void wait(Ticket ticket);

  // Waits for all chunks, ends the thread, calls every collector's finish(). Once. Throws
  // std::bad_alloc if a collector got no memory (base/short_memory.h): from then on chunks were
  // dropped, so that who submits them could bring what it does to its end.
  void finish(profile::Profile& into);

  // fork(2) when all that was submitted is consumed. In the copy (0) there is no worker: nothing
  // can be submitted, and finish() may be called.
  pid_t fork_when_idle();

  // CPU time used by collectors up to now, finish() included (overhead.collector_cpu_s).
  double cpu_seconds() const;

 private:
  void work();
  void stop();
  void consume(const trace::Chunk& chunk);

  std::vector<std::unique_ptr<Collector>> collectors_;
  const size_t max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable completed_;
  std::deque<trace::Chunk> queue_;
  uint64_t last_submitted_ = 0;
  uint64_t last_completed_ = 0;
  bool closing_ = false;
  bool finished_ = false;
  bool got_no_memory_ = false;  // of the thread that consumes, until that has ended
  double cpu_seconds_ = 0;
  std::thread worker_;
};

}  // namespace shadowprof::collect
