// SPDX-License-Identifier: MIT
#include "inject/window_keeper.h"

namespace shadowprof::inject {

void WindowKeeper::look() {
  if (!clock_.has_ticked()) return;
  const bool open = clock_.draw(one_in_);
  if (open) seen_enough_.window_opened();
  open_windows(open);
}

void WindowKeeper::note_drain() {
  hear_collectors();
  if (clock_.is_open()) open_windows(false);
  clock_.close();
}

void WindowKeeper::hear_collectors() {
  for (const trace::RunMailbox::Request& request : seen_enough_.take()) {
    for (const auto& [tid, process] : guests_.processes) {
      if (process->space)
        process->space->windows().answer(request, seen_enough_, sink_.submitted());
    }
    clock_.begin(window_us_);
  }
}

void WindowKeeper::open_windows(bool open) {
  for (const auto& [tid, process] : guests_.processes)
    if (process->space) process->space->windows().turn_all(open);
}

}  // namespace shadowprof::inject
