// SPDX-License-Identifier: MIT
//
// What is to be told of a run besides its profile: what that lacks, which processes have left the
// engine and why, what was executed. Of what may come often the first few are kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"

namespace shadowprof::inject {

// A process that goes on, or begins, outside the engine.
struct Leaving {
  std::chrono::steady_clock::time_point at;
  std::optional<uint64_t> instructions;  // counted up to then; nothing where a trace has them
  std::string why;                       // one sentence without a full stop
};

// A program that the launched process has executed.
struct Executed {
  std::chrono::steady_clock::time_point at;
  std::vector<std::string> command;
};

class RunNotes {
 public:
  void add_unsupported(const std::string& who, const std::string& reason);
  // `counted` is asked for what is kept: the first of them.
  void add_leaving(Tid process, const std::string& what,
                   const std::function<std::optional<uint64_t>()>& counted);
  void add_executed(Tid process);

  // What else the profile lacks, and in bursts why a part of the program ran outside the engine.
  // One line for each of the first few processes or threads of a reason, and one for the rest.
  std::vector<std::string> unsupported() const;
  // The first of those that left, and how many did.
  const std::vector<Leaving>& leavings() const { return leavings_; }
  uint64_t left() const { return left_; }
  // By the launched process, in order; the first of many.
  const std::vector<Executed>& executed() const { return executed_; }

 private:
  struct Unsupported {
    std::vector<std::string> first;
    uint64_t count = 0;
  };
  std::map<std::string, Unsupported> unsupported_;  // by reason
  std::vector<Leaving> leavings_;
  uint64_t left_ = 0;
  std::vector<Executed> executed_;
};

}  // namespace shadowprof::inject
