// SPDX-License-Identifier: MIT
//
// When code that a collector has seen enough of is captured again (capture_windows.h): in windows
// at random times that are one in so many on average, all of the code at once, so that what one
// block leaves in a register is known in the next. The beginning of a window depends on the clock
// alone, and neither on what executes nor on whether anything is recorded in between: a loop that
// only counters see has its windows, too. A window ends with its tick, or with its trace buffer.
//
// The clock is a timer that interrupts the thread that waits for the program: SIGVTALRM, with a
// handler that only notes it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/thread_timer.h"

namespace shadowprof::inject {

class WindowClock {
 public:
  // By the calling thread, before begin().
  Status prepare();
  // There is code to be captured in windows that are so long at most; 0: as by default. Again is
  // nothing.
  void begin(uint32_t window_us);
  // Has time passed since the last call?
  bool has_ticked();
  // Whether a window is open from now on, one of `one_in`.
  bool draw(uint32_t one_in);
  void close() { open_ = false; }
  bool is_open() const { return open_; }

 private:
  bool open_ = false;
  bool runs_ = false;
  std::optional<ThreadTimer> timer_;
  uint64_t random_ = 0xD1B54A32D192ED03ull;
};

}  // namespace shadowprof::inject
