// SPDX-License-Identifier: MIT
//
// The code cache of one address space: memory (a memfd that we write and the guest executes, never
// both in one mapping), the fragments in it, and how control gets from one to the next.
//
//   direct branches    a `jmp rel32` per exit. Unlinked it jumps to the int3 behind itself; linked
//                      to its target's body. Both values are valid at any moment, and the field
//                      never crosses a cache line, so other threads may run through it meanwhile.
//   indirect branches  arrive with a key in rcx: the target's address, and, when counting, a number
//                      of the branch's own added to it. The branch table of every thread slot maps
//                      the key's low 16 bits to an entry: code that checks the whole key (and when
//                      counting the branch), counts, and goes to the body; or on to the next entry
//                      of the same bucket; or in the end to branch_miss. So when counting, each
//                      (branch, target) pair has an entry, and a counter, of its own.
//                      A branch that has had one target only jumps straight to that one's entry.
//                      A pair that has no entry yet goes by the target's open entry, if it has one:
//                      that writes the pair to a log instead of counting it.
//   system calls       all go through the gateway, so that no thread ever waits in the kernel
//                      inside a fragment, and the cache may be emptied at any time. A thread whose
//                      slot says so leaves the cache behind it, by code that makes its registers
//                      the guest's; it needs nobody's help for that, however long the call takes.
//                      Or, as its slot says, it stops there.
//
// Everything is addressed by offset into the cache. Nothing here touches a process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/reserved_array.h"
#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"
#include "base/zeroed_array.h"
#include "decoder/insn.h"
#include "emu/address_table.h"
#include "emu/translate/slot_layout.h"
#include "trace/block_table.h"

namespace shadowprof::emu {

class Emitter;

// How to get the guest's registers back when a thread stops at a point.
enum Recovery : uint8_t {
  kAllInPlace = 0,
  kSubstituteHoldsR15 = 1,  // r15 is in the fragment's substitute, the substitute in the slot
  kRcxSpilled = 2,
  kAddressSpilled = 4,  // Point::reg is parked in spill_address
  // At an int3 behind an instruction that has executed, and has stored an address to be mended: the
  // guest is behind it (x87_pointer.h).
  kPointerStored = 8,
  kSetsTrapFlag = 16,  // at an int3 before a popf that sets the flag (trap_flag.h)
  kReadsAhead = 32,    // at a load of ours from where the instruction stores
};

// A place in the cache where the guest's state is exact: before (or at) guest instruction `insn`.
struct Point {
  int32_t guest_delta = 0;    // from the fragment's start
  uint16_t cache_offset = 0;  // from the fragment's body
  uint16_t insn = 0;          // instructions of the fragment before this one
  uint8_t recovery = kAllInPlace;
  uint8_t reg = 0;
};

// One way out of a fragment.
struct Exit {
  uint32_t jump_field = 0;    // cache offset of the rel32; 0: not a direct exit
  GuestAddr target;
  RunId run;
  uint32_t linked = 0;        // FragmentId + 1 of what it jumps to
  // Exit index + 1: the next exit that is linked to the same fragment, or, while it is not linked,
  // that waits for the same target.
  uint32_t next_incoming = 0;
};

// Who branches: the run that ends in the branch, or nobody in particular. No run that branches
// indirectly has this number.
inline constexpr RunId kAnySite{0};

// A way into a fragment for indirect branches.
struct Entry {
  uint64_t key = 0;
  uint32_t code = 0;              // cache offset
  uint32_t chain_field = 0;       // rel32 field that goes on to the bucket's next entry
  uint32_t body_field = 0;        // rel32 field that goes to the fragment; 0: it lies right behind
  FragmentId target;
  RunId site;
  uint32_t next_of_fragment = 0;  // index + 1
  uint32_t next_in_bucket = 0;    // index + 1
  // How it is found: in the branch table by its key; in the open table by its target (for any
  // site); or only by its site, which jumps to it.
  enum class Way : uint8_t { table, open, site, none } way = Way::table;
};

// When counting: an indirect branch.
struct BranchSite {
  uint32_t field = 0;     // rel32 of its jump, and the cache offset that is right for all targets
  uint32_t any_target = 0;
  uint32_t only = 0;      // entry index + 1: the only target so far
  bool has_many = false;  // has had several
};

// What a counter counts: a run, or a pair of a run and the block that followed it.
struct CounterOwner {
  RunId run;
  BlockId successor;
  bool pair = false;
};

enum class FragmentKind : uint8_t {
  translated,
  native,       // one instruction that the tracer lets the CPU execute at its own address
  unsupported,  // must not be executed under the engine
};

struct Fragment {
  GuestAddr start;
  GuestAddr end;              // behind its last instruction
  uint32_t body = 0;          // cache offsets
  uint32_t code_end = 0;
  uint32_t stale_trap = 0;    // int3 behind a failed self-check; 0: none
  uint32_t first_entry = 0;   // index + 1 of its newest indirect entry; 0: none
  uint32_t first_point = 0;
  uint32_t first_exit = 0;
  uint32_t first_range = 0;   // guest bytes that it was made of
  uint32_t incoming = 0;      // exit index + 1
  uint32_t in_bouts = 0;      // FragmentId + 1 of the translation that it goes on in then; 0: none
  uint16_t point_count = 0;
  uint16_t insns = 0;
  uint8_t exit_count = 0;
  uint8_t range_count = 0;
  FragmentKind kind = FragmentKind::translated;
  decoder::Gpr substitute = decoder::kNoGpr;
  bool live = true;
  bool checks_itself = false;  // may change, so it compares its guest bytes if it is translated
  bool of_bouts = false;      // only such another one leads to it
  const char* unsupported_reason = nullptr;
  RunId longest_run;          // the run that covers all its blocks
};

// Where a thread is when it stops in the cache.
struct CachePosition {
  enum class Kind {
    outside,         // not in the cache
    point,           // exact
    between,         // in inserted code: step on to the next exact place
    unlinked_exit,   // on the int3 of exit `exit`
    stale,           // on the int3 behind a failed self-check, or at the body of a dropped fragment
    branch_miss,     // indirect branch without entry: the target is in rcx
    log_full,        // the pair log is full; its last entry is where the thread was going
    syscall_trap,    // the gateway hands a system call to the tracer
    before_syscall,  // on the gateway's syscall instruction, or where it reads a signal mask
    after_syscall,   // behind it
    call_over,       // the same, on the int3 for threads that are to stop there
    turn_over,       // translated code has used up the thread's turn; it goes on behind the int3
  };
  Kind kind = Kind::outside;
  FragmentId fragment{};
  Point point{};
  uint32_t exit = 0;
};

class CodeCache {
 public:
  // `replaces`: fragments may be redirect()ed. So they may with Recording::both.
  static Result<std::unique_ptr<CodeCache>> create(size_t bytes, Recording recording,
                                                   bool replaces = false);
  ~CodeCache();

  Recording recording() const { return recording_; }

  int memfd() const { return memfd_.get(); }
  size_t size() const { return size_; }
  uint64_t base() const { return base_; }
  // Called once, when the guest has mapped it: emits the gateway and its companions.
  void place_at(uint64_t guest_base);
  bool contains(uint64_t pc) const { return pc >= base_ && pc < base_ + size_; }

  // Room for the translator: all that is left, or an empty span when that is less than `bytes`.
  std::span<uint8_t> room(size_t bytes);
  uint64_t next_address() const { return base_ + used_; }
  uint32_t used() const { return used_; }

  // Takes over `code_bytes` of the room; positions in `fragment` and `exits` are final. Links its
  // exits to what there is, and what waits for it to it.
  FragmentId commit(Fragment fragment, std::span<const GuestRange> ranges,
                    std::span<const Point> points, std::span<const Exit> exits, size_t code_bytes);
  // How indirect branches from `site` (kAnySite when tracing) get to a fragment.
  struct EntryRequest {
    RunId site = kAnySite;
    BlockId first_block;          // what the pair's counter says was reached
    bool flags_are_free = false;  // the fragment overwrites the flags before it reads them
  };
  // Emits an entry right where the next fragment's body will be; the next commit() takes it.
  void begin_entry(GuestAddr start, const EntryRequest& request);
  // The address of the fragment's entry for that site, made if it has none; nothing if there is no
  // room.
  std::optional<uint64_t> add_entry(FragmentId id, const EntryRequest& request);
  // When counting: branches to the fragment that have no entry need no stop from now on, but are
  // logged.
  void add_open_entry(FragmentId id, BlockId first_block);
  // An indirect branch of the fragment that is being made.
  void add_site(RunId site, uint32_t field, uint32_t any_target) {
    sites_[site.value] = {used_ + field, used_ + any_target, 0, false};
  }
  // The number that a branch adds to its target to make the key.
  int32_t site_number(RunId site) const;

  uint32_t add_counter(const CounterOwner& owner);
  const std::vector<CounterOwner>& counter_owners() const { return counter_owners_; }
  const Fragment* find(GuestAddr start) const;
  // What begins there will be asked for soon.
  void expect(GuestAddr start) const { places_.expect(start); }
  FragmentId id_of(const Fragment& f) const {
    return FragmentId(static_cast<uint32_t>(&f - fragments_.data()));
  }
  const Fragment& fragment(FragmentId id) const { return fragments_[id.value]; }
  std::span<const Exit> exits(const Fragment& f) const {
    return {exits_.data() + f.first_exit, f.exit_count};
  }
  std::span<const Point> points(const Fragment& f) const {
    return {points_.data() + f.first_point, f.point_count};
  }
  std::span<const GuestRange> ranges(const Fragment& f) const {
    return {ranges_.data() + f.first_range, f.range_count};
  }
  const Exit& exit(uint32_t index) const { return exits_[index]; }
  uint64_t body_address(FragmentId id) const { return base_ + fragments_[id.value].body; }
  CachePosition locate(uint64_t pc) const;

  // Drops every fragment whose guest bytes overlap `range`; returns how many.
  size_t invalidate(GuestRange range);
  void drop(FragmentId id);
  // Everything that leads to `from` leads to `to` from now on, another translation of the code at
  // the same address. Threads that are in `from` go on there. Only with Recording::both.
  void redirect(FragmentId from, FragmentId to);
  // Empties the cache. No thread may be inside a fragment.
  void flush();
  uint64_t flushes() const { return flushes_; }
  size_t fragment_count() const { return fragments_.size(); }

  // A thread slot's tables; kept equal to ours from now on until detached.
  void attach_slot(uint8_t* slot);
  void detach_slot(uint8_t* slot);

  // Fixed places.
  uint64_t gateway_address() const { return base_ + gateway_; }
  uint64_t syscall_address() const { return base_ + syscall_; }
  uint64_t after_syscall_address() const { return base_ + after_syscall_; }
  uint64_t branch_miss_address() const { return base_ + branch_miss_; }
  // A few thousand cycles of instructions that do nothing, as fast as the processor goes, and on to
  // where state field pace_next says; pace_from and pace_to are time stamps then. Whoever shares
  // the core makes it slower. Only where a trace is recorded.
  uint64_t pace_check_address() const { return base_ + pace_check_; }
  // Stops, and goes on where state field turn_back says.
  uint64_t turn_over_address() const { return base_ + turn_over_; }

 private:
  CodeCache(UniqueFd memfd, uint8_t* host, size_t size, Recording recording, bool replaces);

  void set_branch(size_t index, uint64_t target);
  void set_open(size_t index, uint64_t target);
  void emit_lookup(Emitter& e);
  Entry emit_entry_for_site(GuestAddr start, const EntryRequest& request, uint32_t body);
  bool takes_first_target(RunId site);
  void emit_pair_counter(Emitter& e, const EntryRequest& request);
  void emit_jump_to_body(Emitter& e, Entry& entry, uint32_t body);
  Entry emit_open_entry(const Fragment& f, BlockId first_block);
  void emit_gateway();
  void emit_way_out(Emitter& e);
  void emit_pace_check(Emitter& e);
  // Code at the end of the used part; continues at `body`, or falls through when that is 0.
  Entry emit_entry(GuestAddr start, const EntryRequest& request, uint32_t body);
  void publish_entry(FragmentId id, Entry entry);
  bool has_room_for_entry() const;
  void write_jump_field(uint32_t field, uint32_t target);
  void link(uint32_t exit, FragmentId to);
  void link_or_wait(uint32_t exit);
  void link_waiting(FragmentId to);
  void unlink_incoming(Fragment& f);
  template <typename Use>
  void for_each_page(const Fragment& f, Use use) const;
  void remove_entries(Fragment& f);
  void remove_from_bucket(uint32_t index);
  CachePosition locate_in_fragment(const Fragment& f, uint32_t offset) const;
  CachePosition locate_in_gateway(uint32_t offset) const;

  static constexpr uint32_t kFragmentAlignment = 16;

  Recording recording_;
  bool replaces_;
  UniqueFd memfd_;
  uint8_t* host_ = nullptr;
  size_t size_ = 0;
  uint64_t base_ = 0;
  uint32_t used_ = 0;
  uint32_t first_fragment_offset_ = 0;
  uint32_t gateway_ = 0, syscall_trap_ = 0, syscall_ = 0, after_syscall_ = 0, call_over_ = 0,
           turn_over_ = 0, pace_check_ = 0, branch_miss_ = 0, lookup_ = 0, lookup_miss_ = 0,
           log_full_ = 0, open_table_ = 0;
  std::vector<uint32_t> mask_reads_;
  uint64_t flushes_ = 0;

  ReservedArray<Fragment> fragments_;
  ReservedArray<Exit> exits_;
  ReservedArray<Point> points_;
  ReservedArray<GuestRange> ranges_;
  struct Place {  // a guest address that fragments begin at or lead to
    uint32_t fragment = 0;  // FragmentId + 1 of the one that begins there
    uint32_t waiting = 0;   // exit index + 1 of the first that leads there and is not linked
  };
  AddressTable<Place> places_;
  std::unordered_map<GuestAddr, std::vector<FragmentId>> by_page_;
  std::vector<Entry> entries_;
  // The newest entry (index + 1) of each place in the branch table and in the open one.
  ZeroedArray<uint32_t> buckets_;
  ZeroedArray<uint32_t> open_buckets_;
  std::unordered_map<uint32_t, BranchSite> sites_;  // by run
  std::vector<CounterOwner> counter_owners_;
  struct Region {  // of a fragment's code; what lies between regions is indirect entries
    uint32_t body;
    FragmentId fragment;
  };
  std::vector<Region> regions_;  // ascending
  std::optional<Entry> pending_entry_;
  std::vector<uint8_t*> slots_;
};

}  // namespace shadowprof::emu
