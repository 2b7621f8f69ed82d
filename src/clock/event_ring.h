// SPDX-License-Identifier: MIT
//
// The ring that the kernel writes a perf event's records into (perf_event_open(2)). It owns the
// event, too. Nobody else reads it; the kernel never waits for us: what does not fit is lost, and
// counted.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace shadowprof::clock {

class EventRing {
 public:
  // The ring of an open event.
  static Result<EventRing> map(UniqueFd event);
  EventRing(EventRing&& other) noexcept;
  EventRing& operator=(EventRing&&) = delete;
  ~EventRing();

  // One record after the other, each with its header; what was seen may be overwritten afterwards.
  void drain(const std::function<void(const perf_event_header&, std::span<const uint8_t>)>& see);
  // The event of every thread that inherited it, too.
  void enable(bool on) const;

 private:
  EventRing(UniqueFd event, void* memory) : event_(std::move(event)), memory_(memory) {}

  UniqueFd event_;
  void* memory_ = nullptr;
  std::vector<uint8_t> record_;  // one that goes around the end
};

}  // namespace shadowprof::clock
