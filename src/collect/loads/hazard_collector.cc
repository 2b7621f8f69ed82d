// SPDX-License-Identifier: MIT
#include "collect/loads/hazard_collector.h"

#include <array>

#include "collect/loads/followed_pairs.h"
#include "collect/loads/line_sharing.h"
#include "profile/tables/memory_table.h"
#include "trace/special_record.h"

namespace shadowprof::collect {
namespace {

using profile::PairKind;
using trace::Word;

constexpr uint32_t kPageBytes = limits::kPageBytes;

struct FollowedHazards : FollowedPairs {
  FollowedHazards(const trace::BlockTable& blocks, AccessFollowerOptions how)
      : FollowedPairs(blocks, how, &profile::Tables::hazards, "hazard_pruned"),
        table(blocks),
        sharing(how.moments) {}

  void finish(const TableBuilder& builder, profile::Profile& into) {
    FollowedPairs::finish(builder, into);
    sharing.finish(plans, table, builder, into);
  }

  const trace::BlockTable& table;
  LineSharing sharing;
};

// The recent stores of one thread, and its cache lines. For each value of an address's low 12 bits
// the number of the last store to such a byte: one look at the bytes of a load tells that there is
// none, mostly.
class Thread {
 public:
  explicit Thread(FollowedHazards& followed)
      : followed_(followed), lines_(followed.sharing, followed.plans) {
    forget();
  }

  void enter(const trace::Chunk& chunk) { lines_.enter(chunk); }
  void leave() { lines_.leave(); }
  void begin(const trace::SampleStart& start) { lines_.begin(start); }

  void forget() {
    stores_ += kRecentStores;
    if (stores_ > kMostStores) restart_numbers();
    looks_from_ = insns_ + (followed_.options.sampled ? kRecentInsns : 0);
  }

  void interrupt() { forget(); }

  void take(PlannedRun& run, const Word* record) {
    looks_ = insns_ >= looks_from_;
    lines_.at_insn(insns_);
    if (run.begins_word != kNoWord) lines_.note_moment(value_at(record, run.begins_word));
    if (looks_) followed_.plans.count(run);
    for (const PlannedAccess& access : followed_.plans.accesses(run)) take(access, record);
    if (run.ends_word != kNoWord) lines_.note_moment(value_at(record, run.ends_word));
    insns_ += run.insns;
    if (run.leaves) stores_ += kRecentStores;  // the kernel takes longer than they
    if (stores_ > kMostStores) restart_numbers();
  }

 private:
  struct Store {
    uint64_t address;
    uint64_t insn;
    uint32_t site;
    uint32_t bytes;
  };
  static constexpr uint32_t kMostStores = 0xffff'0000;

  void take(const PlannedAccess& access, const Word* record) {
    switch (access.event) {
      case AccessEvent::load: {
        const uint64_t address = access.address(record);
        lines_.access(address, access.bytes, access.site, false);
        if (!looks_) return;
        look_at(access, address);
        note_split(access, address, PairKind::load_line_split, PairKind::load_page_split);
        return;
      }
      case AccessEvent::store: {
        const uint64_t address = access.address(record);
        remember(access, address);
        lines_.access(address, access.bytes, access.site, true);
        if (looks_)
          note_split(access, address, PairKind::store_line_split, PairKind::store_page_split);
        return;
      }
      case AccessEvent::drain:
        stores_ += kRecentStores;
        return;
      default:
        return;
    }
  }

  void remember(const PlannedAccess& access, uint64_t address) {
    const uint32_t number = ++stores_;
    recent_[number % kRecentStores] = {address, insns_ + access.insn, access.site, access.bytes};
    const uint32_t low = address % kPageBytes;
    if (low + access.bytes <= kPageBytes) {
      std::fill_n(last_.begin() + low, access.bytes, number);
    } else {
      for (uint32_t i = 0; i < access.bytes; i++) last_[(low + i) % kPageBytes] = number;
    }
  }

  void look_at(const PlannedAccess& access, uint64_t address) {
    uint32_t newest = 0;
    const uint32_t low = address % kPageBytes;
    if (low + access.bytes <= kPageBytes) {
      for (uint32_t i = 0; i < access.bytes; i++) newest = std::max(newest, last_[low + i]);
    } else {
      for (uint32_t i = 0; i < access.bytes; i++)
        newest = std::max(newest, last_[(low + i) % kPageBytes]);
    }
    if (stores_ - newest < kRecentStores) compare(access, address);
  }

  // A store is older than all that have a higher number.
  void compare(const PlannedAccess& access, uint64_t address) {
    const uint64_t now = insns_ + access.insn;
    uint32_t overlapped = 0, aliased = 0;
    for (uint32_t i = 0; i < access.bytes; i++) {
      const uint32_t number = last_[(address + i) % kPageBytes];
      if (stores_ - number >= kRecentStores) continue;
      const Store& store = recent_[number % kRecentStores];
      if (now - store.insn > kRecentInsns) continue;
      const bool overlaps =
          store.address < address + access.bytes && address < store.address + store.bytes;
      uint32_t& of_kind = overlaps ? overlapped : aliased;
      of_kind = std::max(of_kind, number);
    }
    if (overlapped != 0 && !contains(overlapped, address, access.bytes))
      count(PairKind::forwarding, overlapped, access.site, now);
    if (aliased > overlapped) count(PairKind::aliasing, aliased, access.site, now);
  }

  bool contains(uint32_t number, uint64_t address, uint32_t bytes) const {
    const Store& store = recent_[number % kRecentStores];
    return store.address <= address && address + bytes <= store.address + store.bytes;
  }
  void count(PairKind kind, uint32_t number, uint32_t site, uint64_t now) {
    const Store& store = recent_[number % kRecentStores];
    followed_.pairs.add(kind, store.site, site, now - store.insn);
  }

  void note_split(const PlannedAccess& access, uint64_t address, PairKind line, PairKind page) {
    if (address % profile::kCacheLineBytes + access.bytes <= profile::kCacheLineBytes) [[likely]]
      return;
    followed_.pairs.add(line, access.site, access.site, 0);
    if (address % kPageBytes + access.bytes > kPageBytes)
      followed_.pairs.add(page, access.site, access.site, 0);
  }

  void restart_numbers() {
    last_.fill(0);
    stores_ = kRecentStores;
  }

  FollowedHazards& followed_;
  SharedLines lines_;
  std::array<uint32_t, kPageBytes> last_{};
  std::array<Store, kRecentStores> recent_{};
  uint64_t insns_ = 0;
  uint64_t looks_from_ = 0;
  uint32_t stores_ =
      0;  // the number of the last one; grows by kRecentStores where all are forgotten
  bool looks_ = true;
};

}  // namespace

std::unique_ptr<Collector> make_hazard_collector(const trace::BlockTable& table,
                                                 AccessFollowerOptions options) {
  return std::make_unique<AccessFollower<Thread, FollowedHazards>>(table, options, "hazard");
}

}  // namespace shadowprof::collect
