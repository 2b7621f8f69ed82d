// SPDX-License-Identifier: MIT
//
// The options of sampled runs, which `run` and `attach` share.
#pragma once

#include <map>
#include <string>

#include "sample/shadow_mode.h"

namespace CLI {
class App;
}

namespace shadowprof::cli {

struct SamplingOptions {
  uint64_t sample_size = 0;  // 0: not given
  double load = 0.5;
  double max_overhead = 0.01;
  double duration = 0;
  double delay = 0;
  double frequency = 0;
  size_t max_shadows = 1;
  uint64_t seed = 1;

  void add_to(CLI::App& app);
  void apply_to(sample::ShadowModeRequest& request) const;
  void record_in(std::map<std::string, std::string>& options) const;
};

}  // namespace shadowprof::cli
