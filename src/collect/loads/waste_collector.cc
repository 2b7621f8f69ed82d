// SPDX-License-Identifier: MIT
#include "collect/loads/waste_collector.h"

#include "base/spread.h"
#include "collect/loads/waste_thread.h"

namespace shadowprof::collect {

using profile::PairKind;
using trace::Word;

void WasteThread::forget() {
  const uint32_t oldest = number_ >= kStores ? number_ - kStores + 1 : 1;
  for (uint32_t n = std::max(begin_, oldest); n <= number_; n++)
    if (Store& store = stores_[n % kStores]; store.fate == Fate::open) settle_unknown(store);
  number_++;  // cells and loads of before have lower ones
  begin_ = number_ + 1;
  read_up_to_ = number_;
  if (number_ < kMostNumber) return;
  std::fill(cells_.begin(), cells_.end(), Cell());
  number_ = read_up_to_ = last_unknown_ = 0;
  begin_ = 1;
}

void WasteThread::take(PlannedRun& run, const Word* record) {
  followed_.plans.count(run);
  for (const PlannedAccess& access : followed_.plans.accesses(run)) take(access, record);
  insns_ += run.insns;
  if (run.leaves) {
    load_unknown();
    store_unknown();
  }
  if (number_ >= kMostNumber) forget();
}

void WasteThread::take(const PlannedAccess& access, const Word* record) {
  constexpr int kAddressBits = 47;  // of a program's memory; a tag holds no more
  switch (access.event) {
    case AccessEvent::load:
    case AccessEvent::store: {
      const uint64_t address = access.address(record);
      const bool loads = access.event == AccessEvent::load;
      if (access.value != 0 && followed_.plans.value_of(access).is_silent(record))
        followed_.pairs.add(PairKind::silent_store, access.site, access.site, 0);
      if ((address + access.bytes) >> kAddressBits != 0) [[unlikely]]
        return loads ? load_unknown() : store_unknown();
      return loads ? load(access, address) : store(access, address);
    }
    case AccessEvent::unknown_load:
      return load_unknown();
    case AccessEvent::unknown_store:
      return store_unknown();
    case AccessEvent::drain:
      return;
  }
}

void WasteThread::settle_unknown(Store& store) {
  store.fate = Fate::settled;
  followed_.plans.site(store.site).unknown++;
}

// Null: it has been forgotten, or it is known what became of it.
WasteThread::Store* WasteThread::open_store(uint32_t number) {
  if (number < begin_ || number_ - number >= kStores) return nullptr;
  Store& store = stores_[number % kStores];
  return store.fate == Fate::open ? &store : nullptr;
}

void WasteThread::store_unknown() {
  last_unknown_ = ++number_;
  Store& slot = stores_[number_ % kStores];
  if (slot.fate == Fate::open) settle_unknown(slot);
  slot.fate = Fate::settled;
}

WasteThread::Cell& WasteThread::cell_of(uint64_t cell) {
  const uint64_t region = cell / kCells;
  const uint64_t place = spread(region) >> 48;  // one of the region: no two of its cells meet
  const auto tag = static_cast<uint32_t>(region) + 1;
  Cell& found = cells_[(cell ^ place) % kCells];
  if (found.tag == tag && found.since >= begin_) [[likely]]
    return found;
  give_up(found);
  found = Cell();
  found.tag = tag;
  found.since = number_ + 1;
  return found;
}

// What its bytes were is known to nobody from now on.
void WasteThread::give_up(const Cell& cell) {
  if (cell.tag == 0 || cell.since < begin_) return;
  for (const uint32_t number : cell.last)
    if (Store* store = open_store(number)) settle_unknown(*store);
}

void WasteThread::store(const PlannedAccess& access, uint64_t address) {
  Overwritten open;
  for_each_part(address, access.bytes, [&](const Part& part) {
    Cell& cell = cell_of(part.cell);
    for (uint32_t i = part.first; i < part.end; i++) {
      if (cell.last[i] != open.number) {
        overwrite(open, access);
        open = {cell.last[i], 0};
      }
      open.bytes++;
    }
  });
  overwrite(open, access);
  const uint32_t number = ++number_;
  Store& slot = stores_[number % kStores];
  if (slot.fate == Fate::open) settle_unknown(slot);
  slot = {insns_ + access.insn, access.site, access.bytes, Fate::open};
  for_each_part(address, access.bytes, [&](const Part& part) {
    Cell& cell = cell_of(part.cell);
    for (uint32_t i = part.first; i < part.end; i++) cell.last[i] = number;
  });
}

// A store of which some bytes stay, or were overwritten by others, is neither waste nor of use.
void WasteThread::overwrite(const Overwritten& by_now, const PlannedAccess& by) {
  Store* const store = open_store(by_now.number);
  if (store == nullptr) return;
  if (store->bytes != by_now.bytes || by_now.number <= read_up_to_) return settle_unknown(*store);
  store->fate = Fate::settled;
  followed_.pairs.add(PairKind::dead_store, store->site, by.site, insns_ + by.insn - store->insn);
}

void WasteThread::load(const PlannedAccess& access, uint64_t address) {
  for_each_part(address, access.bytes, [&](const Part& part) {
    const Cell& cell = cell_of(part.cell);
    uint32_t before = 0;
    for (uint32_t i = part.first; i < part.end; i++) {
      if (cell.last[i] == before) continue;
      before = cell.last[i];
      if (Store* store = open_store(before)) store->fate = Fate::settled;
    }
  });
  Load& last = cell_of(address / kCellBytes).loads[address / 4 % 2];
  const uint32_t what = what_of(access, address);
  const auto insn = static_cast<uint32_t>(insns_ + access.insn);
  if (last.what != 0 && shape_of(last.what) == shape_of(what) &&
      is_repeated(last, address, access.bytes))
    followed_.pairs.add(PairKind::redundant_load, site_of(last.what), access.site,
                        insn - last.insn);
  last = {number_, insn, what};
}

// Have the same bytes been there ever since, as far as this thread knows?
bool WasteThread::is_repeated(const Load& before, uint64_t address, uint32_t bytes) {
  if (before.number < last_unknown_ || before.number + 1 < begin_) return false;
  bool repeated = true;
  for_each_part(address, bytes, [&](const Part& part) {
    const Cell& cell = cell_of(part.cell);
    repeated &= cell.since <= before.number + 1;
    for (uint32_t i = part.first; i < part.end; i++) repeated &= cell.last[i] <= before.number;
  });
  return repeated;
}

std::unique_ptr<Collector> make_waste_collector(const trace::BlockTable& table,
                                                AccessFollowerOptions options) {
  return std::make_unique<AccessFollower<WasteThread, FollowedPairs>>(
      table, options, "waste", &profile::Tables::waste, "waste_pruned");
}

}  // namespace shadowprof::collect
