// SPDX-License-Identifier: MIT
//
// What collectors have seen enough of is captured in windows only (window_clock.h): here their
// requests come in, and windows open and close in all address spaces at once. There is one of these
// where a collector may ask.
#pragma once

#include <cstdint>

#include "inject/guests.h"
#include "inject/window_clock.h"
#include "trace/run_mailbox.h"
#include "trace/trace_sink.h"

namespace shadowprof::inject {

class WindowKeeper {
 public:
  // One window of `one_in` is open, for so long at most. All others outlive it.
  WindowKeeper(trace::RunMailbox& seen_enough, const trace::TraceSink& sink, const Guests& guests,
               uint32_t one_in, uint32_t window_us)
      : seen_enough_(seen_enough),
        sink_(sink),
        guests_(guests),
        one_in_(one_in),
        window_us_(window_us) {}

  // By the thread that waits for the program, before any other of these.
  Status prepare() { return clock_.prepare(); }
  // As often as somebody has stopped, or time has passed. Threads run meanwhile: branches are led
  // elsewhere, and nothing is translated.
  void look();
  // A buffer was full, which ends a window.
  void note_drain();

 private:
  void hear_collectors();
  void open_windows(bool open);

  trace::RunMailbox& seen_enough_;
  const trace::TraceSink& sink_;
  const Guests& guests_;
  uint32_t one_in_;
  uint32_t window_us_;
  WindowClock clock_;
};

}  // namespace shadowprof::inject
