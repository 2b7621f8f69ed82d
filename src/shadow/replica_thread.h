// SPDX-License-Identifier: MIT
//
// A thread of the program inside a replica. A replica has one kernel thread; its guest threads take
// turns in it. The one that runs has its registers there; those of the others are kept here.
#pragma once

#include <memory>
#include <vector>

#include "emu/translate/slot_layout.h"
#include "ptrace/tracee.h"
#include "trace/record.h"

namespace shadowprof::shadow {

struct GuestThread {
  enum class State : uint8_t {
    runnable,
    waiting,  // in an emulated futex wait
    finished,
  };

  Tid tid;  // in the program, by our own number; of one that began in the replica, a made-up one
  State state = State::runnable;

  // While another one runs.
  ptrace::Registers registers{};
  ptrace::ExtendedState extended;
  // Engine context: registers are translated code's, and what it has parked is here. Guest context:
  // registers are the guest's, and the thread enters the cache when it runs next.
  bool in_engine = false;
  static constexpr size_t kParkedFields = offsetof(emu::StatePage, reserved) / sizeof(uint64_t);
  uint64_t parked[kParkedFields] = {};  // the first fields of StatePage
  // What it was writing when its buffer was full; follows the cursor when it runs next.
  std::vector<uint8_t> unfinished;

  // In a futex wait: one, or several, of which the first to be woken is the answer.
  std::vector<GuestAddr> futexes;
  uint32_t futex_bits = 0;
  bool has_timeout = false;

  GuestAddr clear_child_tid;
  uint64_t signal_mask = 0;
  bool traced = false;       // its trace of the present sample has begun
  bool has_stream = false;   // that of some sample has, and only the end of all is an end of it
  std::vector<trace::Word> start;  // with this, which collectors read in place
};

using GuestThreads = std::vector<std::unique_ptr<GuestThread>>;

}  // namespace shadowprof::shadow
