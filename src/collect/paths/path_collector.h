// SPDX-License-Identifier: MIT
//
// Folds a trace into a path profile. A path is the sequence of blocks between two boundaries, which
// depend on the stream alone and never on where a sample began:
//   - a taken branch to an address not above itself in the same module (a loop's back-edge; calls
//     and returns are none). A jump back to another function of the module is taken for one, too:
//     a trace does not tell functions apart;
//   - a return from the frame in which the path began;
//   - a call of a function that the path is in already: one that it has called and not returned
//     from, or the one that it began with the call of;
//   - 128 blocks;
//   - the end of a region of the program, if only that is looked at.
// So a path spans functions. With scope `intra` each function's blocks are on paths of its own:
// entry and exit of a function are boundaries, too, and the caller's path goes on after the call.
//
// A sample's first path is dropped up to the first back-edge (every other boundary may depend on
// what was before the sample), its last one at the sample's end. A signal handler's paths are its
// own; the interrupted path goes on after it.
//
// While reading, a path is a list of run ids and the hash of it (path_counts.h, which also says how
// memory is bounded); what is executed often is followed by code instead (path_automaton.h). Which
// blocks that were is worked out at the end, where lists of runs that stand for the same blocks
// become one path.
#pragma once

#include <memory>

#include "collect/collector.h"
#include "collect/weights/sample_weights.h"

namespace shadowprof::collect {

enum class PathScope : uint8_t { interprocedural, intra };

struct PathCollectorOptions {
  PathScope scope = PathScope::interprocedural;
  // A trace begins where its thread begins, so its first path is whole (full mode).
  bool whole_threads = false;
  size_t capacity_words = size_t{32} << 20;  // of the table of paths (path_counts.h)
  bool errors = false;                       // of counts, from how they differ between samples
  const SampleWeights* weights = nullptr;    // as EdgeCollectorOptions says
  bool learn = true;                         // what is often executed (path_automaton.h)
};

class PathCollector final : public Collector {
 public:
  explicit PathCollector(const trace::BlockTable& table, PathCollectorOptions options = {});
  ~PathCollector() override;

  void consume(const trace::Chunk& chunk) override;
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
