// SPDX-License-Identifier: MIT
#include "sample/burst_translator.h"

#include "collect/count_tables.h"

namespace shadowprof::sample {
namespace {

// How many fragments are followed after one burst or look at the program: that takes a millisecond
// or two of a core.
constexpr size_t kFragmentsAhead = 600;

bool is_counted(const Collection& collection) {
  return (collection.edges || collection.calls) && !collection.needs_trace();
}

inject::EngineOptions options_for(const Collection& collection, bool counting) {
  using ptrace::TraceOptions;
  inject::EngineOptions options;
  options.native_trace = shadow::trace_options(shadow::Follow::no);
  // The last that a thread has recorded is taken when it ends.
  options.trace = options.native_trace | TraceOptions::report_exit;
  options.space.recording = counting ? emu::Recording::counts : emu::Recording::trace;
  options.space.translator.through_jumps = !collection.needs_trace();
  options.space.native_between = true;
  options.plan = collection.plan();
  return options;
}

}  // namespace

BurstTranslator::BurstTranslator(trace::BlockTable& table, trace::TraceSink& sink,
                                 const Collection& collection)
    : table_(table),
      counting_(is_counted(collection)),
      calls_(collection.calls),
      engine_(table, sink, options_for(collection, counting_)) {}

Status BurstTranslator::check_host(const Collection& collection) {
  const Status checked = inject::Bursts::check_host(is_counted(collection));
  if (checked) return checked;
  return fail("bursts in the code cache cannot record these profiles: {}; --engine emulator can",
              checked.error().message);
}

Status BurstTranslator::open(shadow::Pause& paused, size_t threads) {
  process_ = paused.process();
  shadow::PausedThread& thread = paused.threads().front();
  return engine_.open(thread.tracee, process_, threads, thread.deferred);
}

void BurstTranslator::regain(shadow::Pause& paused) {
  for (shadow::PausedThread& thread : paused.threads()) {
    engine_.regain(thread.tracee.tid(), thread.registers);
  }
}

Status BurstTranslator::begin(shadow::Pause& paused) {
  engine_.begin_burst(paused.threads().front().tracee.tid());
  Status refused = fail_errno(EAGAIN, "no thread runs");
  size_t admitted = 0;
  std::erase_if(paused.threads(), [&](shadow::PausedThread& thread) {
    // Signals that wait for their delivery get it natively.
    if (!thread.stop.is_event(ptrace::StopEvent::stop) || !thread.deferred.empty()) return false;
    const Status in = engine_.admit(thread.tracee, thread.registers, thread.deferred);
    if (in) {
      admitted++;
    } else {
      refused = in;
    }
    return in.has_value();
  });
  if (admitted != 0) return {};
  engine_.end_burst();
  return refused;
}

bool BurstTranslator::serve(Tid tid, const ptrace::WaitStatus& status) {
  return engine_.serve(tid, status);
}

uint64_t BurstTranslator::conclude() {
  engine_.conclude_burst();
  if (!counting_) return 0;
  const uint64_t now = engine_.count_instructions();
  return now - std::exchange(instructions_, now);
}

void BurstTranslator::look(shadow::Pause& paused) {
  for (const shadow::PausedThread& thread : paused.threads()) {
    seen_.look(process_, thread.registers);
  }
}

size_t BurstTranslator::prepare() {
  if (!engine_.is_open()) return 0;
  return engine_.translate_ahead(seen_.take(engine_.code()), kFragmentsAhead);
}

Status BurstTranslator::remove(shadow::Pause& paused) {
  if (!engine_.is_open()) return {};
  if (paused.threads().empty()) return fail("no thread of the program can be stopped");
  shadow::PausedThread& thread = paused.threads().front();
  return engine_.close(thread.tracee, thread.deferred);
}

BurstTotals BurstTranslator::totals() const {
  const inject::EngineCounts& counts = engine_.records().counts;
  BurstTotals totals;
  totals.fragments = counts.translation.fragments;
  totals.translation_s = counts.translation.seconds;
  totals.by_number = engine_.records().calls;
  tell_counters(inject::kEngineStops, counts, totals.stops);
  return totals;
}

void BurstTranslator::finish(profile::Profile& profile) {
  if (counting_)
    collect::add_counts(table_, engine_.records().executions.runs(),
                        engine_.records().executions.pairs(), calls_,
                        engine_.records().executions.threads().counts(), profile);
}

}  // namespace shadowprof::sample
