// SPDX-License-Identifier: MIT
#include "machine/memory_view.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/short_memory.h"

namespace shadowprof::machine {
namespace {

constexpr size_t kPage = limits::kPageBytes;
constexpr uint64_t kGroupPages = 4;  // fetched together where one of them has a neighbour
constexpr size_t kArenaBytes = size_t{4} << 20;
constexpr size_t kKeptArenas = 4;  // from one use of a view to the next
// How far below its mapping a stack is extended; the program's own limit is not known here.
constexpr uint64_t kMostGrowth = uint64_t{8} << 20;

uint64_t number_of(GuestAddr address) {
  return address.value / kPage;
}

}  // namespace

void MemoryView::set_areas(std::vector<MemoryArea> areas) {
  const std::vector<MemoryArea> before = std::exchange(areas_, std::move(areas));
  for (auto& [number, page] : pages_) {
    if (!page.present) continue;
    const GuestAddr at(number * kPage);
    const MemoryArea* now = area_of(at);
    const auto then = std::find_if(before.begin(), before.end(),
                                   [&](const MemoryArea& a) { return a.range.contains(at); });
    const bool was_growth = then == before.end();
    const bool same =
        now && (was_growth || (now->readable == then->readable && now->writable == then->writable));
    if (!same) page = {page.own ? page.bytes : nullptr, false, false, true};
  }
}

const MemoryArea* MemoryView::area_of(GuestAddr address) const {
  const auto it =
      std::upper_bound(areas_.begin(), areas_.end(), address,
                       [](GuestAddr a, const MemoryArea& area) { return a < area.range.end; });
  if (it == areas_.end()) return nullptr;
  if (it->range.contains(address)) return &*it;
  const bool grows =
      it->grows_down && it->range.start - address <= static_cast<int64_t>(kMostGrowth);
  return grows ? &*it : nullptr;
}

void MemoryView::clear() {
  pages_.clear();
  arenas_.resize(std::min(arenas_.size(), kKeptArenas));
  arenas_in_use_ = 0;
}

// One behind the other.
uint8_t* MemoryView::place_for_pages(size_t count) {
  if (arenas_in_use_ == 0 || arena_used_ + count * kPage > kArenaBytes) {
    if (arenas_in_use_ == arenas_.size()) {
      arenas_.emplace_back(static_cast<uint8_t*>(map_pages(kArenaBytes)), Unmap{kArenaBytes});
    }
    arenas_in_use_++;
    arena_used_ = 0;
  }
  uint8_t* place = arenas_[arenas_in_use_ - 1].get() + arena_used_;
  arena_used_ += count * kPage;
  return place;
}

MemoryView::Page* MemoryView::find_or_fetch(GuestAddr at, const MemoryArea& area) {
  Page& page = pages_[number_of(at)];
  if (page.present) return &page;
  if (area.same_in_ours) {
    auto* place = const_cast<uint8_t*>(area.same_in_ours) + (at - area.range.start);
    page = {place, true, false, false};
    return &page;
  }
  if (area.range.contains(at)) {
    return page.bytes && page.own ? fetch_again(at, page) : fetch_group(at, area);
  }
  if (!page.bytes) page.bytes = place_for_pages(1);  // a stack grows
  std::memset(page.bytes, 0, kPage);
  page.present = true;
  return &page;
}

MemoryView::Page* MemoryView::fetch_again(GuestAddr at, Page& page) {
  if (source_->read_some(at, {page.bytes, kPage}) < kPage) return nullptr;
  page.present = true;
  page.written = false;
  fetched_++;
  return &page;
}

// The pages around it come with it as far as none of them has ever been here.
MemoryView::Page* MemoryView::fetch_group(GuestAddr at, const MemoryArea& area) {
  uint64_t from = number_of(at);
  uint64_t to = from + 1;
  const bool is_alone = !pages_.contains(from - 1) && !pages_.contains(to);
  const uint64_t size = is_alone ? 1 : kGroupPages;
  const uint64_t group = from / size * size;
  const uint64_t first = std::max(group, number_of(area.range.start));
  const uint64_t end = std::min(group + size, number_of(area.range.end));
  while (from > first && !pages_.contains(from - 1)) from--;
  while (to < end && !pages_.contains(to)) to++;
  const uint64_t wanted = to - from;
  uint8_t* const place = place_for_pages(wanted);
  size_t got = source_->read_some(GuestAddr(from * kPage), {place, wanted * kPage}) / kPage;
  if (got <= number_of(at) - from) {  // something before it cannot be read
    from = number_of(at);
    got = source_->read_some(at, {place, kPage}) / kPage;
  }
  arena_used_ -= (wanted - got) * kPage;
  for (size_t i = 0; i < got; i++) pages_[from + i] = {place + i * kPage, true, false, true};
  fetched_ += got;
  return got == 0 ? nullptr : &pages_[number_of(at)];
}

uint8_t* MemoryView::page(GuestAddr address, bool for_writing) {
  const MemoryArea* area = area_of(address);
  if (!area || !(for_writing ? area->writable : area->readable)) return nullptr;
  Page* page = find_or_fetch(address.page(), *area);
  if (!page || (for_writing && !page->own)) return nullptr;
  page->written |= for_writing;
  return page->bytes;
}

size_t MemoryView::read_some(GuestAddr from, std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const GuestAddr at = from + done;
    const uint8_t* bytes = page(at, false);
    if (!bytes) break;
    const auto offset = static_cast<size_t>(at - at.page());
    const size_t n = std::min(out.size() - done, kPage - offset);
    std::memcpy(&out[done], bytes + offset, n);
    done += n;
  }
  return done;
}

bool MemoryView::read(GuestAddr from, std::span<uint8_t> out) {
  return read_some(from, out) == out.size();
}

bool MemoryView::write(GuestAddr to, std::span<const uint8_t> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const GuestAddr at = to + done;
    uint8_t* place = page(at, true);
    if (!place) return false;
    const auto offset = static_cast<size_t>(at - at.page());
    const size_t n = std::min(bytes.size() - done, kPage - offset);
    std::memcpy(place + offset, &bytes[done], n);
    done += n;
  }
  return true;
}

void MemoryView::take_written(
    const std::function<void(GuestAddr, std::span<const uint8_t>)>& give) {
  std::vector<uint64_t> numbers;
  for (auto& [number, page] : pages_) {
    if (page.present && page.written) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  for (uint64_t number : numbers) {
    Page& page = pages_[number];
    page.written = false;
    give(GuestAddr(number * kPage), {page.bytes, kPage});
  }
}

bool MemoryView::has_written(GuestRange range) const {
  for (GuestAddr at = range.start.page(); at < range.end; at = at + kPage) {
    const auto known = pages_.find(number_of(at));
    if (known != pages_.end() && known->second.present && known->second.written) return true;
  }
  return false;
}

void MemoryView::forget(GuestRange range) {
  if (range.size() / kPage > pages_.size()) {
    for (auto& [number, page] : pages_) {
      if (range.overlaps({GuestAddr(number * kPage), GuestAddr((number + 1) * kPage)}))
        page.present = page.written = false;
    }
    return;
  }
  for (GuestAddr at = range.start.page(); at < range.end; at = at + kPage) {
    const auto known = pages_.find(number_of(at));
    if (known != pages_.end()) known->second.present = known->second.written = false;
  }
}

void MemoryView::forget_all() {
  for (auto& [number, page] : pages_) page.present = page.written = false;
}

}  // namespace shadowprof::machine
