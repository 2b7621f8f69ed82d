// SPDX-License-Identifier: MIT
//
// What the probes have to look at in each run, found out when its id first appears: which of its
// instructions they match, and where a record has what they ask for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/reserved_array.h"
#include "collect/probes/probe_match.h"
#include "collect/recorded_words.h"

namespace shadowprof::collect {

// A fact of an execution: what the words add up to, and of that some bits. Of a latency: the time
// stamps, the first one below.
struct ProbeInput {
  ProbeFact fact = ProbeFact::rax;
  AddressPlan sum{};
  uint8_t shift = 0;
  uint8_t bits = 64;

  uint64_t of(const trace::Word* record) const {
    const uint64_t shifted = sum.at(record) >> shift;
    return bits < 64 ? shifted & ((uint64_t{1} << bits) - 1) : shifted;
  }
};

struct ProbeEvent {
  uint32_t first_input = 0;
  uint8_t inputs = 0;
  uint8_t probe = 0;
  bool waits_for_target = false;  // where the run goes on says it
  bool is_entry = false;
};

struct ProbedRun {
  uint32_t words = 0;  // 0: not met yet
  uint32_t first_event = 0;
  uint16_t events = 0;
  trace::RunExit exit = trace::RunExit::split;
  uint32_t function = 0;       // it begins in; 0: not known
  uint32_t last_function = 0;  // it ends in
  bool is_empty = false;       // it was interrupted before it executed anything
  uint64_t start = 0;
  uint64_t returns_to = 0;  // of calls: behind them
  uint16_t stamps_word = kNoWord;
};

class ProbePlans {
 public:
  // `code`, `probes` and the table outlive it.
  ProbePlans(const trace::BlockTable& table, std::span<const Probe> probes, const ProbedCode& code)
      : table_(table), probes_(probes), code_(code), runs_(limits::kMaxRuns) {
    runs_.prefer_huge_pages();
  }

  // Null: there is no such run.
  const ProbedRun* run(RunId id) {
    ProbedRun& run = runs_[id.value];
    if (run.words == 0) [[unlikely]]
      plan(id);
    return run.words == 0 ? nullptr : &run;
  }
  std::span<const ProbeEvent> events(const ProbedRun& run) const {
    return std::span(events_).subspan(run.first_event, run.events);
  }
  std::span<const ProbeInput> inputs(const ProbeEvent& event) const {
    return std::span(inputs_).subspan(event.first_input, event.inputs);
  }

 private:
  struct Step;
  void plan(RunId id);
  void plan_insn(const Step& step, const RecordedWords& recorded);
  void plan_event(const Step& step, const RecordedWords& recorded, size_t probe);
  void plan_accessed(const Step& step, const RecordedWords& recorded, const Probe& probe);
  void add_input(ProbeFact fact, const RecordedRegister& from, uint8_t shift, uint8_t bits);
  void add_constant(ProbeFact fact, uint64_t number, uint8_t bits = 64);
  void add_results(const decoder::Insn& insn, size_t first_event, const trace::Slot& slot,
                   uint16_t word);

  const trace::BlockTable& table_;
  const std::span<const Probe> probes_;
  const ProbedCode& code_;
  ReservedArray<ProbedRun> runs_;
  std::vector<ProbeEvent> events_;
  std::vector<ProbeInput> inputs_;
};

}  // namespace shadowprof::collect
