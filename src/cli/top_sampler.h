// SPDX-License-Identifier: MIT
//
// The process that samples for `shadowprof top`: what `attach` or `run` would be, with a snapshot
// of its profile in a file each interval (sample/snapshots.h). What flows where:
//
//   program ◀── samples ── sampler ── snapshot.json, replaced each interval ──▶ view
//                             ▲                                                  │
//                             └────────────── SIGINT, SIGTERM ◀── q ─────────────┘
//
// The sampler has a process group of its own, so that ctrl-C reaches the view alone, and ends when
// the view does. What it says goes to a file, which is shown when the view is left.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace shadowprof::cli {

struct TopRequest {
  std::string pid;                   // "": a program is started
  std::vector<std::string> program;  // with its arguments
  double interval_s = 2;
  std::string output;  // "": the profile is not kept
};

class TopSampler {
 public:
  static Result<TopSampler> start(const TopRequest& request);
  TopSampler(TopSampler&& other) noexcept;
  TopSampler& operator=(TopSampler&&) = delete;
  ~TopSampler();  // its files go

  std::string snapshot() const { return folder_ + "/snapshot.json"; }
  bool is_over();
  // Leaves the program as it was, or ends it if it was started here. Waits for the profile.
  void stop();
  // Its exit status, once it is over.
  int status() const { return status_.value_or(0); }
  std::string messages() const;

 private:
  TopSampler(std::string folder, pid_t process, int signal)
      : folder_(std::move(folder)), process_(process), signal_(signal) {}

  std::string folder_;
  pid_t process_;
  int signal_;
  std::optional<int> status_;
};

}  // namespace shadowprof::cli
