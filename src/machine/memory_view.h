// SPDX-License-Identifier: MIT
//
// A private copy-on-write view of another process's memory: what is read is fetched from it once,
// in pieces of some pages; what is written stays here. The process itself is never touched.
//
// Permissions are those of its mappings, so what would fault there has no page here. Mappings that
// another process cannot read, but that are the same in ours (the kernel's vvar pages), are read in
// place.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/types.h"

namespace shadowprof::machine {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // As much as can be read without a gap; returns how much.
  virtual size_t read_some(GuestAddr from, std::span<uint8_t> out) = 0;
};

struct MemoryArea {
  GuestRange range;
  bool readable = false;
  bool writable = false;
  bool grows_down = false;                // a stack: accesses below it extend it
  const uint8_t* same_in_ours = nullptr;  // the same memory is mapped here
};

class MemoryView {
 public:
  MemoryView() = default;  // of nothing, until it has a source
  explicit MemoryView(MemorySource& source) : source_(&source) {}
  MemoryView(const MemoryView&) = delete;
  MemoryView& operator=(const MemoryView&) = delete;

  // The mappings as they are now, ascending. Pages outside of them, and pages whose permissions are
  // other ones now, are forgotten.
  void set_areas(std::vector<MemoryArea> areas);

  // Null: nothing is mapped there. Of an address below a stack that may grow, the stack.
  const MemoryArea* area_of(GuestAddr address) const;

  // Where the page that holds `address` is. Null: it may not be accessed so. For writing it counts
  // as written from then on. The place is valid until the page is forgotten or changed.
  uint8_t* page(GuestAddr address, bool for_writing);

  // All of it, or false; then a part may have been done.
  bool read(GuestAddr from, std::span<uint8_t> out);
  bool write(GuestAddr to, std::span<const uint8_t> bytes);
  // As far as it can be read without a gap.
  size_t read_some(GuestAddr from, std::span<uint8_t> out);

  // Calls `give(page, bytes)` for each page written since it was fetched or last given, ascending.
  // Whatever holds a place for writing must ask again afterwards.
  void take_written(const std::function<void(GuestAddr, std::span<const uint8_t>)>& give);
  bool has_written(GuestRange range) const;
  // The process has other bytes now: they will be fetched again. Written pages too.
  void forget(GuestRange range);
  void forget_all();
  // No page of the mappings is known any more; memory of ours is used again.
  void clear();
  void set_source(MemorySource& source) { source_ = &source; }

  // Pages fetched since the view was made.
  uint64_t fetched() const { return fetched_; }

 private:
  struct Page {
    uint8_t* bytes = nullptr;
    bool present = false;
    bool written = false;
    bool own = true;  // not in place
  };
  Page* find_or_fetch(GuestAddr page, const MemoryArea& area);
  Page* fetch_again(GuestAddr at, Page& page);
  Page* fetch_group(GuestAddr at, const MemoryArea& area);
  uint8_t* place_for_pages(size_t count);

  MemorySource* source_ = nullptr;
  std::vector<MemoryArea> areas_;
  std::unordered_map<uint64_t, Page> pages_;  // by page number
  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* p) const { ::munmap(p, bytes); }
  };
  std::vector<std::unique_ptr<uint8_t, Unmap>> arenas_;
  size_t arenas_in_use_ = 0;
  size_t arena_used_ = 0;  // of the last one in use
  uint64_t fetched_ = 0;
};

}  // namespace shadowprof::machine
