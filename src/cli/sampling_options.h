// SPDX-License-Identifier: MIT
//
// The options of sampled runs, which `run` and `attach` share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sample/burst_mode.h"
#include "sample/shadow_mode.h"

namespace CLI {
class App;
}

namespace shadowprof::cli {

// Seconds.
struct BurstShape {
  double length = 0.002;
  double period = 0.25;
};

// DURATION/PERIOD
Result<BurstShape> parse_burst(const std::string& text);

struct SamplingOptions {
  uint64_t sample_size = 0;  // 0: not given
  double load = 1;
  double max_overhead = 0.01;
  double duration = 0;
  double delay = 0;
  double until_error = 0;  // a share; 0: not given
  double frequency = 0;
  size_t max_shadows = 1;
  uint64_t max_memory = 0;  // bytes; 0: not given
  bool converge = true;
  std::optional<uint64_t> given_seed;
  std::string input_log = "auto";
  std::string time = "clock";
  std::string engine = "auto";
  bool verify = false;
  BurstShape burst;
  bool prefill = true;
  std::string cache;  // a directory; empty: none
  std::string only;   // where samples begin; empty: anywhere
  std::string start_at;  // where sampling begins; empty: at once

  void add_to(CLI::App& app);
  // Full mode is the same every time. Sampled runs are to look at other moments each, or many of
  // them merged would know no more than one.
  uint64_t seed(std::string_view mode) const;
  // What "auto" stands for, or what was asked for.
  std::string chosen_engine(std::string_view mode) const;
  // Loads of a part of what replicas execute.
  bool times_in_bouts(std::string_view mode) const {
    return chosen_engine(mode) == "translator" && !verify;
  }
  // Values of a part of it, too, if there is one program: not where several of them, or engines,
  // have the same code.
  bool captures_in_part(std::string_view mode) const {
    return times_in_bouts(mode) && max_shadows == 1;
  }
  // An Error: these options do not go together. `one_process`: no other is profiled.
  Status check(const std::string& mode, bool one_process) const;
  void apply_to(sample::ShadowModeRequest& request) const;
  void apply_to(sample::BurstModeRequest& request) const;
  // Behind the first: burst mode of more than one process. It forks nothing, and needs no prices.
  void make_bursts_of(sample::ShadowModeRequest& request) const;
  void record_in(const std::string& mode, std::map<std::string, std::string>& options) const;

 private:
  void pace_bursts(plan::Wishes& wishes) const;

  std::vector<std::string_view> given_;  // which options were
  uint64_t drawn_seed_ = draw_seed();
  static uint64_t draw_seed();
};

}  // namespace shadowprof::cli
