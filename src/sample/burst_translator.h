// SPDX-License-Identifier: MIT
//
// Bursts under the translator: the threads run in the code cache, with real system calls and
// signals (inject/bursts.h). The cache stays mapped in the program between bursts, until
// remove().
#pragma once

#include "inject/bursts.h"
#include "sample/burst_engine.h"
#include "sample/collection.h"
#include "sample/seen_code.h"

namespace shadowprof::sample {

class BurstTranslator : public BurstEngine {
 public:
  BurstTranslator(trace::BlockTable& table, trace::TraceSink& sink, const Collection& collection);
  // An Error: this host has not what such a collection needs.
  static Status check_host(const Collection& collection);

  bool is_open(size_t threads) const override { return engine_.has_room_for(threads); }
  Status open(shadow::Pause& paused, size_t threads) override;
  void regain(shadow::Pause& paused) override;
  Status begin(shadow::Pause& paused) override;
  bool owns(Tid tid) const override { return engine_.owns(tid); }
  bool serve(Tid tid, const ptrace::WaitStatus& status) override;
  bool is_over() const override { return engine_.burst_is_over(); }
  const char* reason() const override {
    return engine_.is_unsupported() ? "unsupported" : "system_call";
  }
  void end() override { engine_.end_burst(); }
  uint64_t conclude() override;
  ptrace::WaitOutcome poll() override { return engine_.poll(); }
  void look(shadow::Pause& paused) override;
  size_t prepare() override;
  void forget_program() override { engine_.forget_program(); }
  bool has_sleepers() const override { return engine_.has_sleepers(); }
  void wake_sleepers() override { engine_.wake_sleepers(); }
  Status remove(shadow::Pause& paused) override;
  BurstTotals totals() const override;
  void finish(profile::Profile& profile) override;
  std::vector<std::string> warnings() const override {
    return engine_.records().notes.unsupported();
  }

 private:
  trace::BlockTable& table_;
  bool counting_;
  bool calls_;
  inject::Bursts engine_;
  Tid process_;
  uint64_t instructions_ = 0;
  SeenCode seen_;
};

}  // namespace shadowprof::sample
