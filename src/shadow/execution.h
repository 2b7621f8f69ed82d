// SPDX-License-Identifier: MIT
//
// One replica being run by an engine, from its fork until its trace is read: what the event loop of
// shadow mode knows of it. Two engines, two implementations:
//
//   Executor           the replica itself runs, in the code cache (executor.h)
//   EmulatorExecutor   the replica stays frozen, its memory is interpreted (emulator_executor.h)
//
//   start()        the engine begins
//   on_stop()      the replica has stopped or died
//   on_idle()      what could not go on before, or waits for the tracer's thread
//   proceed()      it is idle, and told what it does next
//   request_end()  from outside: it ends in an orderly way
//
// A replica's life: what it does is decided by whoever calls these, when it is idle, and never by
// it.
//
//   recorded ─▶ leaving ─▶ idle ─▶ native ─▶ recorded ─▶ ...        each state may lead to the end
//                           │ ▲      │
//                           ▼ └──────┘ become_idle()
//                         resting ─▶ idle
//
// None of these waits for collectors or for the engine: the caller has the program's own stops to
// serve. All are called by the tracer's thread.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "base/counter.h"
#include "base/result.h"
#include "emu/translate/translator.h"
#include "ptrace/wait_status.h"
#include "shadow/engine_clock.h"
#include "shadow/outcome.h"
#include "shadow/warm_gain.h"
#include "trace/code_shares.h"
#include "trace/record.h"

namespace shadowprof::shadow {

struct ReplicaStops {
#define COUNTER(member, name) uint64_t member = 0;
#include "shadow/replica_stops.inc"
#undef COUNTER
};
inline constexpr Counter<ReplicaStops> kReplicaStops[] = {
#define COUNTER(member, name) {name, &ReplicaStops::member},
#include "shadow/replica_stops.inc"
#undef COUNTER
};

struct ExecutorCounts : ReplicaStops {
  uint64_t samples = 0;  // that were over before the replica was, each ended by its budget
  bool ended_between = false;  // two samples, if it went on after one
  uint64_t instructions = 0;
  uint64_t fragments = 0;  // translated meanwhile
  // In samples that tell how fast the program is, as nothing was captured, and nothing new.
  uint64_t plain_instructions = 0;
  double plain_s = 0;
  // Between samples, where passes of a branch say how many there were (native_pace.h).
  double paced_instructions = 0;
  double paced_s = 0;
  WarmGain warm_gain;
  double native_s = 0;  // that it executed its program between samples
  double recorded_s = 0;  // that samples took, by the clock
  double translation_s = 0;
  std::map<unsigned, uint64_t> by_number;
  trace::CodeShares shares{};

  uint64_t all_samples() const { return samples + (ended_between ? 0 : 1); }
  uint64_t stops() const { return sum_of(kReplicaStops, *this); }
};

// What an idle replica does next: natively for so long, then another sample. Or it rests, stopped,
// and is idle again.
struct NextSample {
  double rest_s = 0;  // 0: it does not
  double native_s = 0;
  bool warms_up = false;  // native_s is more than usual, for WarmGain
  double seconds = 0;
  uint64_t number = 0;  // as Budget::sample_number
};

struct Budget {
  uint64_t instructions = 0;  // 0: seconds say
  double seconds = 0;         // on the engine's clock; 0: instructions say
  machine::FaultPrice price{};         // with seconds
  double timed_load_s = 0;    // with seconds: that a load takes longer because it is timed
  uint64_t sample_number = 0;
  emu::CapturePlan plan{};
  bool stacks = false;  // each thread's trace begins with its call stack
  // With a budget in seconds: when they are over the replica is idle, where it can be, else it
  // ends.
  bool goes_on = false;
};

class Execution {
 public:
  virtual ~Execution() = default;

  virtual Status start() = 0;
  virtual void on_stop(const ptrace::WaitStatus& status) = 0;
  virtual void on_idle() = 0;
  virtual void request_end(Outcome outcome) = 0;
  // What it executes natively is cut short, if it does.
  virtual void become_idle() = 0;
  // It is idle, and goes on; request_end() if it is not to.
  virtual void proceed(const NextSample& next) = 0;

  // The replica.
  virtual Tid tid() const = 0;
  virtual bool is_our_child() const = 0;
  // Why it ended; the process may still be dying.
  virtual const std::optional<Ending>& ending() const = 0;
  // Dead, and its trace is read.
  virtual bool is_done() const = 0;
  // Seconds until on_idle() may have something to do without a stop; infinite if it waits for one.
  virtual double next_idle() const = 0;
  virtual const ExecutorCounts& counts() const = 0;
  // On the engine's clock, when it ended; 0 if it has none.
  virtual double guest_seconds() const = 0;
  // For whoever executes the guest's code: when it ended, and up to now.
  virtual const ProcessorTime& processor() const = 0;
  virtual ProcessorTime processor_now() const = 0;
  // A thread of ours executes it, and not the replica.
  virtual bool in_our_process() const = 0;
  // Between two samples, stopped: waits to be told what follows. All that the last sample gave is
  // counted.
  virtual bool is_idle() const = 0;
  // Between two samples, stopped for a time; none of our threads keeps away from any core for it.
  virtual bool rests() const = 0;
  // Between two samples, it executes its program.
  virtual bool is_native() const = 0;
  // No core is idle: it runs like everybody from now on, where that is permitted.
  virtual void leave_idle_priority() = 0;
};

// How soon to look again, in seconds, at what others are about to finish.
// Nobody waits for what the dead have left to be read.
inline constexpr double kPollForCollectors_s = 0.0002;
inline constexpr double kPollOfDead_s = 0.002;
inline constexpr double kPollForProgram_s = 0.005;

// The last words of a thread's trace, which collectors read in place.
std::span<const trace::Word> end_of_trace(Outcome outcome);
// For a sample that another one of the same replica follows.
std::span<const trace::Word> end_for_now();

}  // namespace shadowprof::shadow
