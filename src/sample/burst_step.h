// SPDX-License-Identifier: MIT
//
// Bursts by hardware single steps (inject/stepper.h).
#pragma once

#include "inject/stepper.h"
#include "sample/burst_engine.h"

namespace shadowprof::sample {

class BurstStep : public BurstEngine {
 public:
  BurstStep(trace::BlockTable& table, trace::TraceSink& sink) : stepper_(table, sink) {}

  Status begin(shadow::Pause& paused) override;
  bool owns(Tid tid) const override { return stepper_.owns(tid); }
  bool serve(Tid tid, const ptrace::WaitStatus& status) override;
  bool work() override { return stepper_.step(); }
  bool halts_program() const override { return true; }
  bool is_over() const override { return stepper_.is_over(); }
  void end() override { stepper_.end_burst(); }
  uint64_t conclude() override { return stepper_.conclude_burst(); }
  void forget_program() override { stepper_.forget_program(); }
  BurstTotals totals() const override;

 private:
  inject::Stepper stepper_;
};

}  // namespace shadowprof::sample
