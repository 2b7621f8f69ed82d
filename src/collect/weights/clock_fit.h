// SPDX-License-Identifier: MIT
//
// How much of the program's time samples stand for, by what a clock says. Samples are of moments: a
// sample stands for the time around it (sample_series.h), and of what takes turns in a program a
// few of them have too much of one thing and too little of another by chance. A clock that ticks a
// hundred times as often knows how much time each part of the code took. Where samples of some code
// stand for more time together than the clock says, each of them stands for less.
//
// But code is in a sample by instructions, and the clock knows time: what waits for memory has more
// of the time than of the instructions. So two things are unknown: by what factor a sample stands
// for more time (f), and how many times as long as other code an instruction of a region takes (k).
// For a sample s with parts p of its instructions in regions c, which stands for the time t:
//
//   time in c = sum over s of  t f(s) * p(s, c) k(c) / sum over regions of p(s, .) k(.)
//
// The most likely f and k are taken, for which two things count: how likely the clock's ticks are
// by them, and how likely f and k are by themselves. An f is rarely far from one. Most k are near
// one, and some anywhere: what waits for memory, or enters the kernel, takes a hundred times as
// long. A sample that has all of its code in one region says nothing of k, and samples that all
// have the same code nothing of f: both keep what they had.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/code_cells.h"

namespace shadowprof::collect {

class ClockFit {
 public:
  using Shares = std::array<double, kCodeRegions>;
  struct Sample {
    Shares code{};    // parts of its instructions
    double time = 0;  // that it stands for
  };
  // `ticks`: the clock's, by region. A region that no sample has met says nothing.
  ClockFit(std::vector<Sample> samples, Shares ticks);

  // One for each sample; all are 1 where the clock says too little.
  const std::vector<double>& factors() const { return factors_; }

 private:
  struct Slopes {
    std::vector<double> of_samples;
    Shares of_regions{};
  };
  void fit();
  Slopes slopes() const;

  std::vector<Sample> samples_;
  Shares ticks_;
  double all_ticks_ = 0;
  std::vector<double> factor_logs_;
  Shares region_logs_{};
  std::vector<double> factors_;
};

}  // namespace shadowprof::collect
