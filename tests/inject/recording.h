// SPDX-License-Identifier: MIT
//
// Runs a program under the engine with a capture plan and keeps the whole trace, then checks it
// against a Reference.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "inject/engine.h"
#include "reference.h"

namespace shadowprof::inject_test {

// Copies what it is given, as collectors would have consumed it.
class KeepingSink : public trace::TraceSink {
 public:
  void wait(uint64_t) override {}
  bool done(uint64_t) override { return true; }
  const std::deque<std::vector<trace::Word>>& chunks() const { return chunks_; }

 private:
  uint64_t take(const trace::Chunk& chunk) override {
    chunks_.emplace_back(chunk.words.begin(), chunk.words.end());
    return chunks_.size();
  }

  std::deque<std::vector<trace::Word>> chunks_;
};

struct EngineRun {
  inject::ProgramEnd end;
  inject::EngineCounts counts;
};

// From start to end, with kEnvironment, addresses not randomised.
// `in_bouts`: the plan of every third execution or so, in bouts.
EngineRun run_in_engine(trace::BlockTable& table, trace::TraceSink& sink, emu::CapturePlan plan,
                        std::vector<std::string> argv,
                        const std::optional<emu::CapturePlan>& in_bouts = {});

struct Recording {
  std::unique_ptr<trace::BlockTable> table;
  KeepingSink sink;
  EngineRun run;
};

Recording record(const std::vector<std::string>& program, emu::CapturePlan plan);

struct Verdict {
  size_t insns = 0;
  size_t slots = 0;
  size_t timed_loads = 0;
  size_t stamps = 0;  // without a load
  size_t moments = 0;
  size_t gaps = 0;
  std::vector<std::string> complaints;  // the first few
};

// Every instruction of the trace in order, every slot's value, and that the slots are all that the
// plan promises.
// Values are compared from `values_from` on: the C library's own start reads random numbers and the
// processor's name.
Verdict check(const Recording& recording, emu::CapturePlan plan, Reference& reference,
              GuestAddr values_from = {});

}  // namespace shadowprof::inject_test
