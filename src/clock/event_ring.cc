// SPDX-License-Identifier: MIT
#include "clock/event_ring.h"

#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/limits.h"

namespace shadowprof::clock {

Result<EventRing> EventRing::map(Events first, size_t data_pages) {
  size_t data_bytes = data_pages * limits::kPageBytes;
  const auto try_to_map = [&] {
    return ::mmap(nullptr, limits::kPageBytes + data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                  first.lasting.get(), 0);
  };
  void* memory = try_to_map();
  if (memory == MAP_FAILED && data_pages > kFewestPages) {
    data_bytes = kFewestPages * limits::kPageBytes;
    memory = try_to_map();
  }
  if (memory == MAP_FAILED) return fail_errno(errno, "cannot map the ring of clock events");
  EventRing ring(memory, data_bytes);
  SP_TRY(ring.add(std::move(first)));
  return ring;
}

Status EventRing::add(Events events) {
  const auto write_here = [&](const UniqueFd& event) {
    const int mapped = events_.empty() ? events.lasting.get() : events_.front().lasting.get();
    return event.get() == mapped || ::ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, mapped) == 0;
  };
  if (!write_here(events.lasting) || !write_here(events.paused))
    return fail_errno(errno, "cannot have clock events in one ring");
  events_.push_back(std::move(events));
  return {};
}

// Others write to the ring by the first one's descriptor.
size_t EventRing::forget(Tid process) {
  const auto is_its_own = [&](const Events& events) { return events.process == process; };
  const auto gone = std::remove_if(events_.begin() + 1, events_.end(), is_its_own);
  const auto count = static_cast<size_t>(events_.end() - gone);
  events_.erase(gone, events_.end());
  return count;
}

EventRing::EventRing(EventRing&& other) noexcept
    : events_(std::move(other.events_)),
      memory_(std::exchange(other.memory_, nullptr)),
      data_bytes_(other.data_bytes_) {}

EventRing::~EventRing() {
  if (memory_ != nullptr) ::munmap(memory_, limits::kPageBytes + data_bytes_);
}

void EventRing::drain(
    const std::function<void(const perf_event_header&, std::span<const uint8_t>)>& see) {
  auto* page = static_cast<perf_event_mmap_page*>(memory_);
  const auto* data = static_cast<const uint8_t*>(memory_) + limits::kPageBytes;
  // The kernel writes data before it moves the head, and reads the tail before it overwrites.
  const uint64_t head = std::atomic_ref(page->data_head).load(std::memory_order_acquire);
  uint64_t tail = page->data_tail;
  while (tail < head) {
    const size_t at = tail % data_bytes_;
    perf_event_header header;
    std::memcpy(&header, data + at, sizeof(header));  // records are aligned: never around the end
    const size_t size = header.size;
    if (size < sizeof(header) || size > head - tail) break;  // not of the kernel's making
    const size_t before_end = std::min(size, data_bytes_ - at);
    record_.assign(data + at, data + at + before_end);
    record_.insert(record_.end(), data, data + (size - before_end));
    see(header, std::span<const uint8_t>(record_).subspan(sizeof(header)));
    tail += size;
  }
  std::atomic_ref(page->data_tail).store(head, std::memory_order_release);
}

bool EventRing::set_period(uint64_t period) const {
  return std::ranges::all_of(events_, [&](const Events& events) {
    return ::ioctl(events.paused.get(), PERF_EVENT_IOC_PERIOD, &period) == 0;
  });
}

void EventRing::enable(bool on) const {
  for (const Events& events : events_)
    (void)::ioctl(events.paused.get(), on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

}  // namespace shadowprof::clock
