// SPDX-License-Identifier: MIT
//
// Engines write to a TraceSink and collectors read from a Pipeline: the one is the other.
#pragma once

#include <functional>
#include <utility>

#include "collect/pipeline.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

class PipelineSink : public trace::TraceSink {
 public:
  // `before` is called for each chunk, on the thread that submits it.
  explicit PipelineSink(collect::Pipeline& pipeline, std::function<void()> before = {})
      : pipeline_(pipeline), before_(std::move(before)) {}
  void wait(uint64_t ticket) override { pipeline_.wait({ticket}); }
  bool done(uint64_t ticket) override { return pipeline_.done({ticket}); }

 private:
  uint64_t take(const trace::Chunk& chunk) override {
    if (before_) before_();
    return pipeline_.submit(chunk).number;
  }

  collect::Pipeline& pipeline_;
  std::function<void()> before_;
};

}  // namespace shadowprof::sample
