// SPDX-License-Identifier: MIT
//
// What an engine does for its programs, and what it records of them.
#pragma once

#include <cstdint>
#include <optional>

#include "cache/address_space.h"
#include "machine/cpu_model.h"
#include "ptrace/tracee.h"
#include "trace/run_mailbox.h"

namespace shadowprof::inject {

class BurstEnd {
 public:
  // Something was met that cannot run under the engine: nobody is in it afterwards.
  virtual void end_burst() = 0;

 protected:
  ~BurstEnd() = default;
};

struct EngineOptions {
  bool follow = false;      // children, too
  bool follow_exec = true;  // what a process executes; else it goes on natively from there
  emu::CapturePlan plan{};
  // What a collector has seen enough of is captured in one window of `capture_one_in`
  // (window_keeper.h).
  trace::RunMailbox* seen_enough = nullptr;
  uint32_t capture_one_in = 1;
  uint32_t capture_window_us = 0;
  cache::SpaceOptions space{};
  ptrace::TraceOptions trace = ptrace::TraceOptions::none;  // of threads in the engine
  // What cpuid and the auxiliary vector say; nullptr: what the host does.
  const machine::CpuModel* processor = nullptr;
  // The programs get one machine, the same on every host (fixed/fixed_machine.h), and start in the
  // same way each time (ptrace/start_stack.h). Needs a `processor`, and the translator's
  // stop_at_cpuid.
  bool fixed_machine = false;
  // Time is a part of it: the clock is machine::VirtualClock. Needs the translator's stop_at_rdtsc,
  // and counters.
  bool virtual_time = false;
  // Where time is, threads take turns (fixed/turn_keeper.h), also those of several processes; by
  // this seed, if there is one.
  std::optional<uint64_t> schedule_seed{};
  // Where threads come from native execution, and return to it (bursts.h); else nullptr. It need
  // not be there yet, and outlives the engine.
  BurstEnd* bursts = nullptr;
  ptrace::TraceOptions native_trace = ptrace::TraceOptions::none;  // of threads there
};

}  // namespace shadowprof::inject
