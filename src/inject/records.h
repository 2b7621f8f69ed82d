// SPDX-License-Identifier: MIT
//
// All that is kept of what threads execute in the engine.
//
//   begin(t)      it has a slot: its trace begins
//   ran(t, run)   it has executed that, and neither its trace nor a counter says so yet
//   conclude(t)   nothing more will come of it: its trace ends, its log and calls are taken
//
// Whoever knows better what is to be kept speaks to the parts: a gap in a trace, a branch that was
// counted. Nobody is asked anything here, and no thread is stopped or resumed.
#pragma once

#include <cstdint>
#include <map>

#include "base/counter.h"
#include "emu/translate/fragment_finder.h"
#include "inject/execution_counts.h"
#include "inject/run_notes.h"
#include "inject/trace_writer.h"

namespace shadowprof::inject {

struct EngineCounts {
#define COUNTER(member, name) uint64_t member = 0;
#include "inject/engine_stops.inc"
#undef COUNTER
  uint64_t traces = 0;  // the number of the last one: a thread has one for each program
  emu::TranslationCost translation;
  double program_cpu_s = 0;  // of the processes in the engine, up to when their threads ended
};
inline constexpr Counter<EngineCounts> kEngineStops[] = {
#define COUNTER(member, name) {name, &EngineCounts::member},
#include "inject/engine_stops.inc"
#undef COUNTER
};

struct Records {
  // `clock`: see ExecutionCounts. All outlive it.
  Records(const trace::BlockTable& table, trace::TraceSink& sink, emu::Recording recording,
          machine::VirtualClock* clock)
      : executions(table, clock), traces(sink, has_trace(recording)), what(recording) {}

  EngineCounts counts;
  std::map<unsigned, uint64_t> calls;  // by number, of all threads
  ExecutionCounts executions;          // when counting
  TraceWriter traces;
  RunNotes notes;
  const emu::Recording what;

  bool counting() const { return has_counts(what); }
  bool tracing() const { return has_trace(what); }

  void begin(GuestThread& t) { traces.begin(t, ++counts.traces); }
  void ran(GuestThread& t, RunId run);
  // When counting: what the thread has logged.
  ExecutionCounts::Pairs take_log(GuestThread& t);
  // It may still need its slot, to find the way out. Idempotent.
  void conclude(GuestThread& t, trace::EndReason reason);
};

}  // namespace shadowprof::inject
