// SPDX-License-Identifier: MIT
//
// How many instructions a thread has executed follows from its counters, exactly whenever it has
// come to us by itself; so the virtual clock costs nothing while the program runs.
#pragma once

#include "inject/guest_process.h"
#include "inject/guest_thread.h"
#include "machine/virtual_clock.h"

namespace shadowprof::inject {

// The clock counts what the thread has executed up to now.
inline void catch_up(machine::VirtualClock& clock, GuestThread& t) {
  if (t.slot) clock.retire(t.process->space->newly_retired(*t.slot));
}

}  // namespace shadowprof::inject
