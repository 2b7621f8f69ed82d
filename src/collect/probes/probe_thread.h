// SPDX-License-Identifier: MIT
//
// What is known of one thread while its trace is read: the calls that it is in, and the events that
// wait to be told where a branch has led.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collect/probes/probe_plan.h"
#include "collect/probes/probe_stacks.h"
#include "trace/special_record.h"

namespace shadowprof::collect {

struct WaitingProbe {
  uint8_t probe = 0;
  ProbeFacts facts;
};

class ProbeThread {
 public:
  // What the thread did last.
  struct Before {
    bool known = false;
    trace::RunExit exit = trace::RunExit::split;
    uint32_t function = 0;
  };

  // Nothing is known of it.
  void forget() { *this = {}; }
  // Or that it begins here: nobody has called it.
  void begin() { is_whole_ = true; }
  void start_sample(const trace::SampleStart& start) {
    forget();
    for (size_t i = start.callers(); i-- > 0;) {
      const trace::SampleStart::Caller caller = start.caller(i);
      if (!caller.is_exact) call(caller.address);
    }
    is_whole_ = start.is_whole();
  }

  // A run begins at `start`. What comes before its events.
  void arrive(uint64_t start) {
    if (before_.known && before_.exit == trace::RunExit::ret) return_to(start);
  }
  // And what comes behind them.
  void depart(const ProbedRun& run) {
    if (run.returns_to != 0) call(run.returns_to);
    if (!run.is_empty) before_ = {true, run.exit, run.last_function};
  }

  // Its first instruction is that of a function that is entered there.
  bool enters(const ProbedRun& run) const {
    const bool loops =
        before_.known && before_.function == run.function && before_.exit != trace::RunExit::call &&
        before_.exit != trace::RunExit::indirect_call && before_.exit != trace::RunExit::ret;
    return run.function == 0 || !loops;
  }
  std::optional<uint64_t> caller() const {
    if (callers_.empty()) return std::nullopt;
    return callers_.back();
  }

  // So many calls at most. False: not even the innermost one is known.
  bool stack(size_t most, ProbeStack& into) const {
    into.size = 0;
    for (auto at = callers_.rbegin(); at != callers_.rend() && into.size < most; ++at)
      into.add(*at);
    if (into.size == most || is_whole_) return true;
    if (into.size == 0) return false;
    into.add(ProbeStacks::kNoMore);
    return true;
  }

  void deliver_signal() {
    if (interrupted_.size() == kMostHandlers) interrupted_.clear();
    interrupted_.push_back({std::move(callers_), std::move(waiting), before_, is_whole_});
    callers_.clear();
    waiting.clear();
    before_ = {};
    is_whole_ = true;
  }
  void return_from_signal() {
    callers_.clear();
    waiting.clear();
    before_ = {};
    is_whole_ = false;
    if (interrupted_.empty()) return;
    callers_ = std::move(interrupted_.back().callers);
    waiting = std::move(interrupted_.back().waiting);
    before_ = interrupted_.back().before;
    is_whole_ = interrupted_.back().is_whole;
    interrupted_.pop_back();
  }
  void run_natively() { before_ = {}; }

  std::vector<WaitingProbe> waiting;

 private:
  static constexpr size_t kMostCallers = 4'096;
  static constexpr size_t kMostHandlers = 8;
  struct Interrupted {
    std::vector<uint64_t> callers;
    std::vector<WaitingProbe> waiting;
    Before before;
    bool is_whole = false;
  };

  void call(uint64_t returns_to) {
    if (callers_.size() == kMostCallers) {
      callers_.erase(callers_.begin(), callers_.begin() + kMostCallers / 2);
      is_whole_ = false;
    }
    callers_.push_back(returns_to);
  }
  void return_to(uint64_t place) {
    const auto found = std::find(callers_.rbegin(), callers_.rend(), place);
    is_whole_ &= found != callers_.rend();
    callers_.erase(found == callers_.rend() ? callers_.begin() : found.base() - 1, callers_.end());
  }

  std::vector<uint64_t> callers_;  // where each returns to, the innermost last
  bool is_whole_ = false;          // nobody has called the function that the first is a call of
  std::vector<Interrupted> interrupted_;
  Before before_;
};

}  // namespace shadowprof::collect
