// SPDX-License-Identifier: MIT
//
// What the samples of one replica are to the weights (collect/weights/sample_weights.h). Each says
// of some moment of the program's what it does, but samples that follow one another at once are
// much the same: all within a tenth of a second of the program's are one observation, with one
// number; later in a long run, all within a thousandth of the run up to then.
#pragma once

#include <cstdint>

#include "collect/weights/sample_weights.h"
#include "shadow/execution.h"
#include "trace/code_shares.h"

namespace shadowprof::sample {

class ReplicaSamples {
 public:
  // This program's, forked when it had used so many seconds of processor time. Its first sample
  // has the number.
  ReplicaSamples(collect::SampleWeights& weights, int64_t program, double used);

  // Its present sample's.
  uint64_t number() const { return number_; }
  double forked_at() const { return used_; }
  // One is over, and the next will begin when the replica has executed so many seconds of its
  // program. `done`: what it has given in all.
  void go_on(double executed, const shadow::ExecutorCounts& done);
  // The last one is over.
  void end(const shadow::ExecutorCounts& done) { tell(done); }

 private:
  void tell(const shadow::ExecutorCounts& done);

  collect::SampleWeights& weights_;
  int64_t program_;
  double used_;
  uint64_t number_;
  double began_ = 0;  // the present observation, in seconds that the replica had executed
  // What the weights were told.
  uint64_t instructions_ = 0;
  collect::SampleSpeed recorded_{};
  collect::SampleSpeed native_{};
  trace::CodeShares shares_{};
};

}  // namespace shadowprof::sample
