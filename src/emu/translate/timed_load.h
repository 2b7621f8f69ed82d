// SPDX-License-Identifier: MIT
//
// The code around a timed load, for the translator and for whoever calibrates what it measures
// (probe/calibrate.h): only what the same code measures can be compared.
//
//   empty stamp    rdtsc, kept in the state page; in the first timed load of a record
//   first stamp    likewise, between two fences
//   the load
//   second stamp   a fence, rdtsc; then all go into the record
//
// lfence waits until everything before it is done: the load has its value when the second stamp is
// taken, as if an instruction that depends on it came next. No store to the trace lies between the
// stamps: its page or line may be missing. Those of earlier records are done before the first stamp
// (mfence): where another core reads the trace they wait for their lines, and a store between the
// stamps would wait for room behind them.
//
// From the empty stamp to the first one the same instructions are executed as from the first to the
// second, but for the load. They work on the state page alone, and yet they do not always take the
// same time: who else uses the core, another virtual machine by its second thread for instance,
// makes them a third slower for milliseconds. So what is to be subtracted is measured beside the
// loads (collect/loads/stamp_cost.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/translate/emitter.h"

namespace shadowprof::emu {

// Where stamps go, in bytes behind the cursor.
struct StampSlots {
  uint32_t load = 0;   // trace::SlotKind::load_cycles
  uint32_t empty = 0;  // trace::SlotKind::stamps; 0: there is no empty stamp
};

inline void park_time_registers(Emitter& e) {
  e.store_state(offsetof(StatePage, spill_time_rax), decoder::kRax);
  e.store_state(offsetof(StatePage, spill_time_rdx), decoder::kRdx);
}

inline void restore_time_registers(Emitter& e) {
  e.load_state(decoder::kRax, offsetof(StatePage, spill_time_rax));
  e.load_state(decoder::kRdx, offsetof(StatePage, spill_time_rdx));
}

inline void emit_stamp_before(Emitter& e, size_t field) {
  e.rdtsc();
  e.store_state(field, decoder::kRax);
  restore_time_registers(e);
  e.lfence();
}

inline void emit_first_stamp(Emitter& e, StampSlots slots) {
  park_time_registers(e);
  e.mfence();
  e.lfence();
  if (slots.empty != 0) {
    emit_stamp_before(e, offsetof(StatePage, empty_stamp));
    e.lfence();
    park_time_registers(e);
  }
  emit_stamp_before(e, offsetof(StatePage, first_stamp));
}

inline void emit_second_stamp(Emitter& e, StampSlots slots) {
  e.lfence();
  park_time_registers(e);
  e.rdtsc();
  e.store_cursor_eax(slots.load + 4);
  e.load_state(decoder::kRax, offsetof(StatePage, first_stamp));
  e.store_cursor_eax(slots.load);
  if (slots.empty != 0) {
    e.store_cursor_eax(slots.empty + 4);
    e.load_state(decoder::kRax, offsetof(StatePage, empty_stamp));
    e.store_cursor_eax(slots.empty);
  }
  restore_time_registers(e);
}

// Where in time a record is, to [r15 + slot], as trace::SlotKind::moment. Without fences.
inline void emit_time_stamp(Emitter& e, uint32_t slot) {
  park_time_registers(e);
  e.rdtsc();
  e.store_cursor_eax(slot);
  e.bytes({0x89, 0xd0});  // mov eax, edx
  e.store_cursor_eax(slot + 4);
  restore_time_registers(e);
}

}  // namespace shadowprof::emu
