// SPDX-License-Identifier: MIT
//
// The ring of one processor that the kernel writes records of perf events into
// (perf_event_open(2)), with these events. Nobody else reads it; the kernel never waits for us:
// what does not fit is lost, and counted.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"

namespace shadowprof::clock {

class EventRing {
 public:
  // What a thread of `process` has on this processor: an event that goes on for as long as the ring
  // is there, and one that can be paused.
  struct Events {
    Tid process;
    UniqueFd lasting;
    UniqueFd paused;
  };

  // Room for records of so many pages, a power of two, or of the fewest, where the kernel refuses
  // them (perf_event_mlock_kb).
  static constexpr size_t kFewestPages = 16;
  static Result<EventRing> map(Events first, size_t data_pages);
  // One more thread writes here.
  Status add(Events events);
  // The process's are no more, but for the ring's first. Returns how many these were.
  size_t forget(Tid process);
  EventRing(EventRing&& other) noexcept;
  EventRing& operator=(EventRing&&) = delete;
  ~EventRing();

  // One record after the other, each with its header; what was seen may be overwritten afterwards.
  void drain(const std::function<void(const perf_event_header&, std::span<const uint8_t>)>& see);
  // The events that can be paused, and those of every thread that inherited them.
  void enable(bool on) const;
  // These events have it from now on, and those that threads inherit. False: the kernel refuses it.
  bool set_period(uint64_t period) const;

 private:
  EventRing(void* memory, size_t data_bytes) : memory_(memory), data_bytes_(data_bytes) {}

  std::vector<Events> events_;
  void* memory_ = nullptr;
  size_t data_bytes_ = 0;        // behind a page that tells where they begin and end
  std::vector<uint8_t> record_;  // one that goes around the end
};

}  // namespace shadowprof::clock
