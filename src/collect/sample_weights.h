// SPDX-License-Identifier: MIT
//
// How much each sample counts. Samples are taken when the budget allows it and go on for as long as
// they are cheap, so the parts of a program in which they are cheap have more instructions of them than
// is their share. But each sample stands for a time: half of the program's processor time from the
// sample before, and half of that to the next. An instruction of a sample counts as much as
//
//   time that the sample stands for / instructions of the sample
//
// over the same of all samples together, so that the sum of all counts is what was recorded. Not
// quite as much: where one sample stands for a long time, what it has is much by chance. The figure
// is raised to the power kBelieved, and kept within kMost and 1 / kMost.
//
// That takes the program for equally fast in all samples. Replicas do tell how fast they were, but what
// slows them down most (new pages, cold caches, the trace) is their own: weights that believe them
// are worse (bench/README.md). Within a sample, and the others of its replica, the proportions are
// the replica's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shadowprof::collect {

class SampleWeights {
 public:
  static constexpr double kBelieved = 0.75;  // measured: bench/README.md
  static constexpr double kMost = 10;

  // The next sample is of this program, which has used so many seconds of processor time. Returns
  // the sample's number, as its trace says it (trace::sample_start): 1, 2, ...
  uint64_t taken(int64_t program, double used);
  // It has given so many instructions.
  void recorded(uint64_t number, uint64_t instructions);
  // After the last one.
  void conclude();

  // Of the samples `first` to `last`, taken together; 1 for numbers that were never given.
  double of(uint64_t first, uint64_t last) const;

 private:
  struct Sample {
    int64_t program = 0;
    double used = 0;  // at its beginning
    uint64_t instructions = 0;
    double weight = 1;
  };
  std::vector<double> times() const;

  std::vector<Sample> samples_;
};

}  // namespace shadowprof::collect
