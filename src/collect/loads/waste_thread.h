// SPDX-License-Identifier: MIT
//
// What is remembered of a thread's memory to find waste (waste_collector.h): of 8 bytes each in a
// cell, which store wrote which of them last, and the last load that began in each half; and the
// last kStores stores, with what became of them. Stores are numbered; a load has the number of the
// last store before it, so that it is known of each byte whether it was written since.
//
// A cell is found by its address alone: of cells that belong to the same place the last one stays.
// Numbers below begin_ are of what was forgotten: to forget everything costs nothing but a look at
// the stores of which it was open what becomes of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collect/loads/followed_pairs.h"

namespace shadowprof::collect {

class WasteThread {
 public:
  static constexpr uint32_t kCells = 1u << 16;  // 512 KB of the program's memory
  static constexpr uint32_t kStores = 1u << 17;

  explicit WasteThread(FollowedPairs& followed)
      : followed_(followed), cells_(kCells), stores_(kStores) {}

  void forget();
  void interrupt() { forget(); }
  void take(PlannedRun& run, const trace::Word* record);

 private:
  static constexpr uint32_t kCellBytes = 8;
  static constexpr uint32_t kMostNumber = 0xffff'0000;

  enum class Fate : uint8_t { none, open, settled };
  struct Store {
    uint64_t insn = 0;
    uint32_t site = 0;
    uint8_t bytes = 0;
    Fate fate = Fate::none;
  };
  struct Load {
    uint32_t number = 0;  // of the last store before it
    uint32_t insn = 0;    // its low half
    uint32_t what = 0;    // site, bytes, where it begins: what_of()
  };
  struct Cell {
    uint32_t tag = 0;
    uint32_t since = 0;                       // what was stored before that number is not known
    std::array<uint32_t, kCellBytes> last{};  // number of the store; below begin_: none
    std::array<Load, 2> loads{};
  };
  static_assert(sizeof(Cell) == 64);

  // The bytes of an access that one cell has.
  struct Part {
    uint64_t cell;  // address / kCellBytes
    uint32_t first;
    uint32_t end;
  };
  template <typename Use>
  static void for_each_part(uint64_t address, uint32_t bytes, Use use) {
    for (uint64_t at = address, end = address + bytes; at < end;) {
      const uint32_t first = at % kCellBytes;
      const uint64_t next = std::min(end, at - first + kCellBytes);
      use(Part{at / kCellBytes, first, first + static_cast<uint32_t>(next - at)});
      at = next;
    }
  }

  // The bytes of a store that has been overwritten in one piece.
  struct Overwritten {
    uint32_t number = 0;
    uint32_t bytes = 0;
  };

  static uint32_t what_of(const PlannedAccess& access, uint64_t address) {
    constexpr uint32_t kByteBits = 6, kPlaceBits = 2;
    return access.site << (kByteBits + kPlaceBits) | (access.bytes - 1u) << kPlaceBits |
           (address & 3);
  }
  static uint32_t site_of(uint32_t what) { return what >> 8; }
  static uint32_t shape_of(uint32_t what) { return what & 0xff; }

  void take(const PlannedAccess& access, const trace::Word* record);
  void store(const PlannedAccess& access, uint64_t address);
  void load(const PlannedAccess& access, uint64_t address);
  void load_unknown() { read_up_to_ = number_; }
  void store_unknown();
  Cell& cell_of(uint64_t cell);
  void give_up(const Cell& cell);
  void overwrite(const Overwritten& by_now, const PlannedAccess& by);
  void settle_unknown(Store& store);
  Store* open_store(uint32_t number);
  bool is_repeated(const Load& before, uint64_t address, uint32_t bytes);

  FollowedPairs& followed_;
  std::vector<Cell> cells_;
  std::vector<Store> stores_;  // by number
  uint64_t insns_ = 0;
  uint32_t number_ = 0;        // of the last store
  uint32_t begin_ = 1;         // of the first that counts
  uint32_t read_up_to_ = 0;    // these may have been read by an access of unknown address
  uint32_t last_unknown_ = 0;  // number of the last store of unknown address
};

}  // namespace shadowprof::collect
