// SPDX-License-Identifier: MIT
//
// The code around a timed load, for the translator and for whoever calibrates what it measures
// (probe/calibrate.h): only what the same code measures can be compared.
//
//   first stamp    rdtsc, kept in the state page, between two fences
//   the load
//   second stamp   a fence, rdtsc; then both go into the record
//
// lfence waits until everything before it is done: the load has its value when the second stamp is
// taken, as if an instruction that depends on it came next. No store to the trace lies between the
// stamps: its page or line may be missing. Those of earlier records are done before the first stamp
// (mfence): where another core reads the trace they wait for their lines, and a store between the
// stamps would wait for room behind them. What is between the stamps beside the load always takes
// the same time, since it works on the state page alone: that is the overhead, measured without a
// load.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/translate/emitter.h"

namespace shadowprof::emu {

inline void emit_first_stamp(Emitter& e) {
  e.store_state(offsetof(StatePage, spill_time_rax), decoder::kRax);
  e.store_state(offsetof(StatePage, spill_time_rdx), decoder::kRdx);
  e.mfence();
  e.lfence();
  e.rdtsc();
  e.store_state(offsetof(StatePage, first_stamp), decoder::kRax);
  e.load_state(decoder::kRax, offsetof(StatePage, spill_time_rax));
  e.load_state(decoder::kRdx, offsetof(StatePage, spill_time_rdx));
  e.lfence();
}

// Both go to [r15 + slot], as trace::SlotKind::load_cycles.
inline void emit_second_stamp(Emitter& e, uint32_t slot) {
  e.lfence();
  e.store_state(offsetof(StatePage, spill_time_rax), decoder::kRax);
  e.store_state(offsetof(StatePage, spill_time_rdx), decoder::kRdx);
  e.rdtsc();
  e.store_cursor_eax(slot + 4);
  e.load_state(decoder::kRax, offsetof(StatePage, first_stamp));
  e.store_cursor_eax(slot);
  e.load_state(decoder::kRax, offsetof(StatePage, spill_time_rax));
  e.load_state(decoder::kRdx, offsetof(StatePage, spill_time_rdx));
}

// Where in time a record is, to [r15 + slot], as trace::SlotKind::moment. Without fences.
inline void emit_time_stamp(Emitter& e, uint32_t slot) {
  e.store_state(offsetof(StatePage, spill_time_rax), decoder::kRax);
  e.store_state(offsetof(StatePage, spill_time_rdx), decoder::kRdx);
  e.rdtsc();
  e.store_cursor_eax(slot);
  e.bytes({0x89, 0xd0});  // mov eax, edx
  e.store_cursor_eax(slot + 4);
  e.load_state(decoder::kRax, offsetof(StatePage, spill_time_rax));
  e.load_state(decoder::kRdx, offsetof(StatePage, spill_time_rdx));
}

}  // namespace shadowprof::emu
