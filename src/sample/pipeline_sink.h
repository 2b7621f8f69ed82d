// SPDX-License-Identifier: MIT
//
// Engines write to a TraceSink and collectors read from a Pipeline: the one is the other.
#pragma once

#include "collect/pipeline.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

class PipelineSink : public trace::TraceSink {
 public:
  explicit PipelineSink(collect::Pipeline& pipeline) : pipeline_(pipeline) {}
  void wait(uint64_t ticket) override { pipeline_.wait({ticket}); }
  bool done(uint64_t ticket) override { return pipeline_.done({ticket}); }

 private:
  uint64_t take(const trace::Chunk& chunk) override { return pipeline_.submit(chunk).number; }

  collect::Pipeline& pipeline_;
};

}  // namespace shadowprof::sample
