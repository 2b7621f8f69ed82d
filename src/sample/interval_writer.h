// SPDX-License-Identifier: MIT
//
// Writes the profile of an interval that is over while the next one is sampled already, by a copy
// of the process that samples (own_copy.h), and removes the oldest files of the series then.
//
//   interval 1 ──fork──▶ copy: names, app.<1>.json, old files
//   interval 2 ── ...
//
// What cannot be written is lost with its interval, and said once until one is written again.
#pragma once

#include <functional>
#include <string>

#include "profile/profile.h"
#include "sample/own_copy.h"
#include "sample/profile_series.h"

namespace shadowprof::sample {

class IntervalWriter {
 public:
  IntervalWriter(ProfileSeries series, double interval_s)
      : series_(std::move(series)), interval_s_(interval_s) {}

  double interval_s() const { return interval_s_; }
  // May an interval end? Not while one that is over is still being written: it lasts longer then.
  bool is_free();
  // `make` is called in a copy of this process: the profile of the interval.
  void write(collect::Pipeline& pipeline, const std::function<profile::Profile&()>& make);
  // The last one is written, or has had long enough to be.
  void settle();

 private:
  void take_news(double most_s);
  void note(const std::string& why_not);

  ProfileSeries series_;
  double interval_s_;
  OwnCopy copy_;
  bool has_failed_ = false;  // the last one, which was said
};

}  // namespace shadowprof::sample
