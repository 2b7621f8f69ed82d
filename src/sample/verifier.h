// SPDX-License-Identifier: MIT
//
// --verify: a sample that both engines run, on two replicas of the same moment, and whose traces
// are compared instruction by instruction. Collectors do not get it.
//
// The engines have tables, caches and spaces of their own here, because everything is captured.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emu/trace_comparison.h"
#include "profile/profile.h"
#include "shadow/emulator_space.h"
#include "shadow/execution.h"
#include "shadow/replica.h"
#include "shadow/shadow_space.h"
#include "shadow/system_calls.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

// Keeps the first stream that is written to it.
class RecordingSink : public trace::TraceSink {
 public:
  void wait(uint64_t) override {}
  bool done(uint64_t) override { return true; }
  std::span<const trace::Word> words() const { return words_; }
  void clear();

 private:
  uint64_t take(const trace::Chunk& chunk) override;

  std::optional<Tid> stream_;
  std::vector<trace::Word> words_;
};

class Verifier {
 public:
  static Result<std::unique_ptr<Verifier>> create();

  // The two sides of one sample. Both must be gone before the next.
  std::unique_ptr<shadow::Execution> translator_side(shadow::Replica replica,
                                                     shadow::Identity identity,
                                                     uint64_t instructions);
  std::unique_ptr<shadow::Execution> emulator_side(shadow::Replica replica,
                                                   shadow::Identity identity,
                                                   uint64_t instructions);
  // Both have ended. A sentence if they did not do the same.
  std::optional<std::string> conclude();

  const profile::Verified& counts() const { return counts_; }

 private:
  Verifier();

  trace::BlockTable translator_table_;  // one for each: they are filled at the same time
  trace::BlockTable emulator_table_;
  std::unique_ptr<shadow::ShadowSpace> translator_space_;
  shadow::EmulatorSpace emulator_space_;
  RecordingSink translated_;
  RecordingSink interpreted_;
  emu::TraceComparison comparison_;
  profile::Verified counts_;
};

}  // namespace shadowprof::sample
