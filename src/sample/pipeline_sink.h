// SPDX-License-Identifier: MIT
//
// Engines write to a TraceSink and collectors read from a Pipeline: the one is the other. It keeps
// the names of threads whose traces it has seen, since collectors see no process.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>

#include "collect/pipeline.h"
#include "kernel/proc.h"
#include "profile/profile.h"
#include "sample/thread_names.h"
#include "trace/thread_counts.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

class PipelineSink : public trace::TraceSink {
 public:
  // `names_threads`: chunks say what their threads are called. `before` is called for each chunk,
  // on the thread that submits it.
  explicit PipelineSink(collect::Pipeline& pipeline, bool names_threads,
                        std::function<void()> before = {})
      : pipeline_(pipeline), names_threads_(names_threads), before_(std::move(before)) {}
  void wait(uint64_t ticket) override { pipeline_.wait({ticket}); }
  bool done(uint64_t ticket) override { return pipeline_.done({ticket}); }
  collect::Pipeline& pipeline() const { return pipeline_; }
  // Collectors know threads by their ids: names are those from when a trace first came.
  void name_threads(profile::Profile& profile) const {
    for (const auto& [thread, row] : threads_) profile.threads.push_back(row);
    profile::join_threads_by_id(profile);
  }

 private:
  uint64_t take(const trace::Chunk& chunk) override {
    if (before_) before_();
    note_thread(chunk.program_thread());
    if (!names_threads_) return pipeline_.submit(chunk).number;
    trace::Chunk named = chunk;
    named.name = names_.of(chunk.program_thread());
    return pipeline_.submit(named).number;
  }

  void note_thread(Tid thread) {
    if (thread == Tid() || threads_.contains(thread)) return;
    if (threads_.size() == trace::kMostThreads) return;
    const auto status = kernel::read_status(thread);
    threads_[thread] = {thread.value, status ? status->tgid.value : 0, kernel::thread_name(thread)};
  }

  collect::Pipeline& pipeline_;
  const bool names_threads_;
  const std::function<void()> before_;
  ThreadNames names_;
  std::unordered_map<Tid, profile::ThreadRow> threads_;
};

}  // namespace shadowprof::sample
