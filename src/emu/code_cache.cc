// SPDX-License-Identifier: MIT
#include "emu/code_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "emu/translate/emitter.h"
#include "emu/translate/timed_load.h"

namespace shadowprof::emu {
namespace {

constexpr size_t kMaxFragments = size_t{1} << 23;
constexpr size_t kMaxExits = size_t{1} << 26;
constexpr size_t kMaxPoints = size_t{1} << 27;
constexpr size_t kMaxRanges = size_t{1} << 26;
constexpr size_t kEntryMaxBytes = 192;
// More than one fragment's exits, and the entries that are made between two translations.
constexpr size_t kCountersPerFragment = 4096;

struct Ways {
  std::vector<uint32_t> calls, stops;  // jumps that are to land at the system call, or the stop
  std::vector<uint32_t> mask_reads;    // instructions that read the program's memory
};

// rcx holds the SyscallKind of the call that is to be made.
Ways emit_choice(Emitter& e) {
  Ways ways;
  const auto next_kind = [&e] {
    e.add_imm_to_rcx(-1);
    return e.jrcxz_forward();
  };
  // rcx is to be 0 where the table says nothing of a byte of an argument.
  using Insn = std::initializer_list<uint8_t>;
  const Insn kLoadDil{0x40, 0x0f, 0xb6, 0xcf}, kLoadDl{0x0f, 0xb6, 0xca};
  const Insn kLoadR10b{0x41, 0x0f, 0xb6, 0xca}, kLoadRsi{0x48, 0x89, 0xf1};
  const auto look_up = [&e](Insn load_argument, size_t table) {
    e.bytes(load_argument);
    e.load_kind_rcx(table);
    return e.jrcxz_forward();
  };
  const auto call_or_stop = [&](const std::vector<uint32_t>& stops) {
    ways.calls.push_back(e.jmp_forward());
    for (const uint32_t stop : stops) e.land_rel8(stop);
    ways.stops.push_back(e.jmp_forward());
  };

  const uint32_t tracer = e.jrcxz_forward();
  const uint32_t execute = next_kind(), mmap = next_kind(), openat = next_kind();
  const uint32_t ptrace = next_kind(), action = next_kind();
  const uint32_t mask = e.jmp_forward();
  e.land_rel8(tracer);
  ways.stops.push_back(e.jmp_forward());
  e.land_rel8(execute);
  ways.calls.push_back(e.jmp_forward());
  e.land_rel8(action);
  call_or_stop({look_up(kLoadDil, offsetof(StatePage, signals_plain))});
  e.land_rel8(ptrace);
  call_or_stop({look_up(kLoadDil, offsetof(StatePage, trace_requests_plain))});
  e.land_rel8(openat);
  call_or_stop({look_up(kLoadDl, offsetof(StatePage, open_flags_plain))});
  e.land_rel8(mmap);
  const uint32_t maps_code = look_up(kLoadDl, offsetof(StatePage, mmap_prot_plain));
  call_or_stop({maps_code, look_up(kLoadR10b, offsetof(StatePage, mmap_flags_plain))});
  e.land_rel32(mask);
  e.bytes(kLoadRsi);  // the address of the new mask
  const uint32_t only_asks = e.jrcxz_forward();
  std::vector<uint32_t> stops;
  for (size_t i = 0; i < kMaskBytes.size(); i++) {
    ways.mask_reads.push_back(e.offset());
    stops.push_back(look_up({0x0f, 0xb6, 0x4e, kMaskBytes[i]},  // movzx ecx, byte [rsi + ...]
                            offsetof(StatePage, masks_plain) + 256 * i));
  }
  e.land_rel8(only_asks);
  call_or_stop(stops);
  return ways;
}

}  // namespace

Result<std::unique_ptr<CodeCache>> CodeCache::create(size_t bytes, Recording recording,
                                                     bool replaces) {
  UniqueFd fd(::memfd_create("shadowprof-code", MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "cannot create the code cache (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail_errno(errno, "cannot size the code cache to {} bytes", bytes);
  }
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (p == MAP_FAILED) return fail_errno(errno, "cannot map the code cache of {} bytes", bytes);
  replaces = replaces || recording == Recording::both;
  return std::unique_ptr<CodeCache>(
      new CodeCache(std::move(fd), static_cast<uint8_t*>(p), bytes, recording, replaces));
}

CodeCache::CodeCache(UniqueFd memfd, uint8_t* host, size_t size, Recording recording, bool replaces)
    : recording_(recording),
      replaces_(replaces),
      memfd_(std::move(memfd)),
      host_(host),
      size_(size),
      fragments_(kMaxFragments),
      exits_(kMaxExits),
      points_(kMaxPoints),
      ranges_(kMaxRanges),
      buckets_(kBranchTableEntries),
      open_buckets_(kBranchTableEntries) {}

CodeCache::~CodeCache() { ::munmap(host_, size_); }

void CodeCache::place_at(uint64_t guest_base) {
  SP_CHECK(base_ == 0, "the cache has its place already");
  base_ = guest_base;
  emit_gateway();
  used_ = first_fragment_offset_;
}

// The gateway: rcx holds the guest address behind the system call instruction; rcx and r11 are
// free, since the system call itself overwrites them.
void CodeCache::emit_gateway() {
  Emitter e({host_, size_}, base_, recording_);
  e.int3();  // nothing is ever at offset 0

  gateway_ = e.offset();
  e.store_state(offsetof(StatePage, next_pc), decoder::kRcx);
  if (recording_ == Recording::trace) e.store_state(offsetof(StatePage, cursor), decoder::kR15);
  e.movzx_ecx_ax();
  e.count_call_rcx(kSyscallCountsOffset);
  e.load_kind_rcx(kSyscallKindsOffset);
  Ways ways = emit_choice(e);
  mask_reads_ = std::move(ways.mask_reads);
  for (const uint32_t call : ways.calls) e.land_rel32(call);
  syscall_ = e.offset();
  e.syscall();
  after_syscall_ = e.offset();
  e.load_state(decoder::kRcx, offsetof(StatePage, leaves));
  const uint32_t stays = e.jrcxz_forward();
  const uint32_t leaves = e.jmp_forward();
  e.land_rel8(stays);
  e.load_state(decoder::kRcx, offsetof(StatePage, next_pc));
  e.spill_branch_registers(0);
  if (has_counts(recording_)) e.store_site(offsetof(StatePage, site), kAnySite.value);
  e.movzx_edx_cx();
  e.jmp_table_rdx(kBranchTableOffset);
  for (const uint32_t stop : ways.stops) e.land_rel32(stop);
  syscall_trap_ = e.offset();
  e.int3();

  e.land_rel32(leaves);
  emit_way_out(e);

  turn_over_ = e.offset();
  e.int3();
  e.jmp_state(offsetof(StatePage, turn_back));
  if (recording_ == Recording::trace) emit_pace_check(e);
  branch_miss_ = e.offset();
  e.int3();
  lookup_ = branch_miss_;
  if (has_counts(recording_)) emit_lookup(e);
  first_fragment_offset_ = (e.offset() + kFragmentAlignment) & ~(kFragmentAlignment - 1);
}

// Behind a system call: to a stop, if the slot says so. If not, to guest context without anybody's
// help: rcx is to be the address that the call returns to, as the processor leaves it, and only r15
// and the GS base are not the guest's.
void CodeCache::emit_way_out(Emitter& e) {
  e.load_state(decoder::kRcx, offsetof(StatePage, stops_behind_call));
  const uint32_t goes_out = e.jrcxz_forward();
  call_over_ = e.offset();
  e.int3();
  e.land_rel8(goes_out);
  if (recording_ == Recording::counts) {
    e.load_state(decoder::kRcx, offsetof(StatePage, next_pc));
    e.load_state(decoder::kR15, offsetof(StatePage, guest_r15));
  } else {
    e.rdgsbase_rcx();
    e.load_through_rcx(decoder::kR15, offsetof(StatePage, guest_gs_base));
    e.wrgsbase_r15();
    e.load_through_rcx(decoder::kR15, offsetof(StatePage, guest_r15));
    e.load_through_rcx(decoder::kRcx, offsetof(StatePage, next_pc));
  }
  e.jmp_rcx();
}

// No register is changed, and no flag.
void CodeCache::emit_pace_check(Emitter& e) {
  constexpr int kNothings = 64;  // in a round, with a branch back
  constexpr uint64_t kRounds = 1000;
  pace_check_ = e.offset();
  park_time_registers(e);
  e.store_state(offsetof(StatePage, spill_rcx), decoder::kRcx);
  e.rdtsc();  // its low half is enough
  e.store_state(offsetof(StatePage, pace_from), decoder::kRax);
  e.mov_imm(decoder::kRcx, kRounds);
  const uint64_t round = e.here();
  for (int i = 0; i < kNothings; i++) e.byte(0x90);  // nop
  e.add_imm_to_rcx(-1);
  const uint32_t over = e.jrcxz_forward();
  e.jmp_rel32(round);
  e.land_rel8(over);
  e.rdtsc();
  e.store_state(offsetof(StatePage, pace_to), decoder::kRax);
  restore_time_registers(e);
  e.load_state(decoder::kRcx, offsetof(StatePage, spill_rcx));
  e.jmp_state(offsetof(StatePage, pace_next));
}

std::span<uint8_t> CodeCache::room(size_t bytes) {
  if (used_ + bytes > size_ || fragments_.size() + 1 >= kMaxFragments) return {};
  if (counter_owners_.size() + kCountersPerFragment > max_counters(recording_)) return {};
  return {host_ + used_, size_ - used_};
}

template <typename Use>
void CodeCache::for_each_page(const Fragment& f, Use use) const {
  for (const GuestRange& range : ranges(f)) {
    for (GuestAddr page = range.start.page(); page < range.end; page = page + limits::kPageBytes) {
      use(page);
    }
  }
}

FragmentId CodeCache::commit(Fragment fragment, std::span<const GuestRange> ranges,
                             std::span<const Point> points, std::span<const Exit> exits,
                             size_t code_bytes) {
  const FragmentId id(static_cast<uint32_t>(fragments_.size()));
  fragment.body = used_;
  fragment.code_end = used_ + static_cast<uint32_t>(code_bytes);
  fragment.first_point = static_cast<uint32_t>(points_.size());
  fragment.point_count = static_cast<uint16_t>(points.size());
  fragment.first_exit = static_cast<uint32_t>(exits_.size());
  fragment.exit_count = static_cast<uint8_t>(exits.size());
  fragment.first_range = static_cast<uint32_t>(ranges_.size());
  fragment.range_count = static_cast<uint8_t>(ranges.size());
  for (const GuestRange& r : ranges) ranges_.push_back(r);
  for (const Point& p : points) points_.push_back(p);
  for (const Exit& e : exits) exits_.push_back(e);
  fragments_.push_back(fragment);
  regions_.push_back({fragment.body, id});
  if (!fragment.of_bouts) places_.at(fragment.start).fragment = id.value + 1;
  for_each_page(fragment, [&](GuestAddr page) {
    std::vector<FragmentId>& here = by_page_[page];
    if (here.empty() || here.back() != id) here.push_back(id);
  });
  used_ = (fragment.code_end + kFragmentAlignment - 1) & ~(kFragmentAlignment - 1);
  if (pending_entry_) {
    publish_entry(id, *pending_entry_);
    pending_entry_.reset();
  }
  if (!fragment.of_bouts) link_waiting(id);
  for (uint32_t i = 0; i < exits.size(); i++) link_or_wait(fragment.first_exit + i);
  return id;
}

// As emit_lookup() undoes it. It spreads the sites over the branch table.
int32_t CodeCache::site_number(RunId site) const { return -static_cast<int32_t>(site.value * 16); }

uint32_t CodeCache::add_counter(const CounterOwner& owner) {
  SP_CHECK(counter_owners_.size() < max_counters(recording_),
           "more counters than a slot has room for");
  counter_owners_.push_back(owner);
  return static_cast<uint32_t>(counter_owners_.size() - 1);
}

// Arrives with rcx = key, the guest's rcx and rdx spilled. The way on for other keys comes first,
// out of the way of the hit, which should be straight: each taken branch that we add costs the
// processor some of what it remembers to predict the guest's own.
Entry CodeCache::emit_entry(GuestAddr start, const EntryRequest& request, uint32_t body) {
  const RunId site = request.site;
  if (takes_first_target(site)) return emit_entry_for_site(start, request, body);
  const uint64_t key = start.value + static_cast<uint64_t>(int64_t{site_number(site)});
  Emitter e({host_ + used_, size_ - used_}, base_ + used_, recording_);
  // Two (site, target) pairs may add up to the same key.
  const bool checks_site = has_counts(recording_);
  const uint64_t wrong_site = e.here();
  if (checks_site) e.mov_imm(decoder::kRcx, 0);
  const uint64_t wrong_key = e.here();
  e.add_to_rcx(key);
  while ((e.here() + 1) % 64 > 60) e.byte(0x90);  // nop
  e.jmp_rel32(base_ + lookup_);
  const uint32_t chain_field = used_ + e.offset() - 4;

  Entry entry;
  entry.key = key;
  entry.site = site;
  entry.code = used_ + e.offset();
  entry.chain_field = chain_field;
  e.add_to_rcx(1 - key);
  e.decrement_rcx_and_jump_unless_zero(wrong_key);
  if (checks_site) {
    e.load_state(decoder::kRcx, offsetof(StatePage, site));
    e.add_imm_to_rcx(1 - static_cast<int32_t>(site.value));
    e.decrement_rcx_and_jump_unless_zero(wrong_site);
  }
  emit_pair_counter(e, request);
  e.restore_branch_registers();
  emit_jump_to_body(e, entry, body);
  used_ += e.offset();
  return entry;
}

// To a fragment that will be right behind (0), only if it may be replaced by another.
void CodeCache::emit_jump_to_body(Emitter& e, Entry& entry, uint32_t body) {
  if (body == 0 && !replaces_) return;
  while ((e.here() + 1) % 64 > 60) e.byte(0x90);  // nop
  e.jmp_rel32(body != 0 ? base_ + body : e.here() + 5);
  entry.body_field = used_ + e.offset() - 4;
}

// rcx is free.
void CodeCache::emit_pair_counter(Emitter& e, const EntryRequest& request) {
  if (request.site == kAnySite) return;
  const size_t field =
      counter_offset(recording_, add_counter({request.site, request.first_block, true}));
  if (request.flags_are_free) {
    e.inc_state(field);
  } else {
    e.load_state(decoder::kRcx, field);
    e.add_imm_to_rcx(1);
    e.store_state(field, decoder::kRcx);
  }
}

// Is the next entry for `site` the one that it jumps to? A second target makes it look in the table
// for both: the first gets an entry there when it comes next.
bool CodeCache::takes_first_target(RunId site) {
  const auto it = sites_.find(site.value);
  if (it == sites_.end() || it->second.has_many) return false;
  if (it->second.only == 0) return true;
  write_jump_field(it->second.field, it->second.any_target);
  entries_[it->second.only - 1].way = Entry::Way::none;
  it->second.only = 0;
  it->second.has_many = true;
  return false;
}

Entry CodeCache::emit_entry_for_site(GuestAddr start, const EntryRequest& request, uint32_t body) {
  Emitter e({host_ + used_, size_ - used_}, base_ + used_, recording_);
  const uint64_t wrong_target = e.here();
  e.add_to_rcx(start.value);
  e.jmp_rel32(base_ + sites_.at(request.site.value).any_target);
  Entry entry;
  entry.way = Entry::Way::site;
  entry.site = request.site;
  entry.code = used_ + e.offset();
  e.add_to_rcx(1 - start.value);
  e.decrement_rcx_and_jump_unless_zero(wrong_target);
  emit_pair_counter(e, request);
  e.restore_branch_registers();
  emit_jump_to_body(e, entry, body);
  used_ += e.offset();
  return entry;
}

void CodeCache::publish_entry(FragmentId id, Entry entry) {
  Fragment& f = fragments_[id.value];
  entry.target = id;
  entry.next_of_fragment = f.first_entry;
  const auto index = static_cast<uint32_t>(entries_.size());
  f.first_entry = index + 1;
  if (entry.way == Entry::Way::site) {
    BranchSite& site = sites_.at(entry.site.value);
    site.only = index + 1;
    entries_.push_back(entry);
    return write_jump_field(site.field, entry.code);
  }
  const bool open = entry.way == Entry::Way::open;
  const size_t slot = branch_index(entry.key);
  uint32_t& newest = open ? open_buckets_[slot] : buckets_[slot];
  if (newest != 0) write_jump_field(entry.chain_field, entries_[newest - 1].code);
  entry.next_in_bucket = std::exchange(newest, index + 1);
  entries_.push_back(entry);
  open ? set_open(slot, base_ + entry.code) : set_branch(slot, base_ + entry.code);
}

bool CodeCache::has_room_for_entry() const {
  return used_ + kEntryMaxBytes <= size_ && counter_owners_.size() < max_counters(recording_);
}

void CodeCache::begin_entry(GuestAddr start, const EntryRequest& request) {
  if (has_room_for_entry()) pending_entry_ = emit_entry(start, request, 0);
}

std::optional<uint64_t> CodeCache::add_entry(FragmentId id, const EntryRequest& request) {
  const Fragment& f = fragments_[id.value];
  for (uint32_t i = f.first_entry; i != 0; i = entries_[i - 1].next_of_fragment) {
    const Entry& known = entries_[i - 1];
    if (known.site == request.site &&
        (known.way == Entry::Way::table || known.way == Entry::Way::site))
      return base_ + known.code;
  }
  if (!has_room_for_entry()) return std::nullopt;
  const Entry entry = emit_entry(f.start, request, f.body);
  used_ = (used_ + kFragmentAlignment - 1) & ~(kFragmentAlignment - 1);
  publish_entry(id, entry);
  return base_ + entry.code;
}

void CodeCache::remove_entries(Fragment& f) {
  for (uint32_t i = std::exchange(f.first_entry, 0); i != 0; i = entries_[i - 1].next_of_fragment) {
    const Entry& e = entries_[i - 1];
    if (e.way == Entry::Way::site) {
      BranchSite& site = sites_.at(e.site.value);
      write_jump_field(site.field, site.any_target);
      site.only = 0;
    } else if (e.way != Entry::Way::none) {
      remove_from_bucket(i - 1);
    }
  }
}

void CodeCache::remove_from_bucket(uint32_t index) {
  const Entry& entry = entries_[index];
  const size_t slot = branch_index(entry.key);
  const bool open = entry.way == Entry::Way::open;
  const uint32_t end = open ? lookup_miss_ : lookup_;
  const uint32_t next = entry.next_in_bucket != 0 ? entries_[entry.next_in_bucket - 1].code : end;
  uint32_t& newest = open ? open_buckets_[slot] : buckets_[slot];
  if (newest == index + 1) {
    newest = entry.next_in_bucket;
    return open ? set_open(slot, base_ + next) : set_branch(slot, base_ + next);
  }
  uint32_t newer = newest;
  while (newer != 0 && entries_[newer - 1].next_in_bucket != index + 1) {
    newer = entries_[newer - 1].next_in_bucket;
  }
  SP_CHECK(newer != 0, "an indirect entry outside its bucket");
  entries_[newer - 1].next_in_bucket = entry.next_in_bucket;
  write_jump_field(entries_[newer - 1].chain_field, next);
}

void CodeCache::set_branch(size_t index, uint64_t target) {
  for (uint8_t* slot : slots_) {
    auto* entry = reinterpret_cast<uint64_t*>(slot + kBranchTableOffset) + index;
    std::atomic_ref(*entry).store(target, std::memory_order_release);
  }
}

// `field` is executed by other threads meanwhile: it lies within one cache line, so they see the
// old or the new value.
void CodeCache::write_jump_field(uint32_t field, uint32_t target) {
  const uint32_t relative = target - (field + 4);
  __atomic_store_n(reinterpret_cast<uint32_t*>(host_ + field), relative, __ATOMIC_RELEASE);
}

void CodeCache::link(uint32_t exit_index, FragmentId to) {
  Exit& e = exits_[exit_index];
  Fragment& target = fragments_[to.value];
  e.linked = to.value + 1;
  e.next_incoming = target.incoming;
  target.incoming = exit_index + 1;
  write_jump_field(e.jump_field, target.body);
}

void CodeCache::link_or_wait(uint32_t exit_index) {
  Exit& e = exits_[exit_index];
  Place& place = places_.at(e.target);
  if (place.fragment != 0) return link(exit_index, FragmentId(place.fragment - 1));
  e.next_incoming = std::exchange(place.waiting, exit_index + 1);
}

void CodeCache::link_waiting(FragmentId to) {
  Place& place = places_.at(fragments_[to.value].start);
  for (uint32_t at = std::exchange(place.waiting, 0); at != 0;) {
    const uint32_t exit_index = at - 1;
    at = exits_[exit_index].next_incoming;
    link(exit_index, to);
  }
}

// They wait for the target to be translated anew.
void CodeCache::unlink_incoming(Fragment& f) {
  for (uint32_t at = std::exchange(f.incoming, 0); at != 0;) {
    const uint32_t exit_index = at - 1;
    Exit& e = exits_[exit_index];
    at = e.next_incoming;
    write_jump_field(e.jump_field, e.jump_field + 4);
    e.linked = 0;
    link_or_wait(exit_index);
  }
}

const Fragment* CodeCache::find(GuestAddr start) const {
  const Place* place = places_.find(start);
  return place == nullptr || place->fragment == 0 ? nullptr : &fragments_[place->fragment - 1];
}

void CodeCache::drop(FragmentId id) {
  Fragment& f = fragments_[id.value];
  if (!f.live) return;
  Place& place = places_.at(f.start);
  if (place.fragment == id.value + 1) place.fragment = 0;
  unlink_incoming(f);
  remove_entries(f);
  f.live = false;
  host_[f.body] = 0xcc;  // a thread that is on its way here traps
  for_each_page(f, [&](GuestAddr page) { std::erase(by_page_[page], id); });
  if (f.in_bouts != 0) drop(FragmentId(f.in_bouts - 1));
}

void CodeCache::redirect(FragmentId from, FragmentId to) {
  SP_CHECK(replaces_, "fragments that are entered without a jump stay");
  Fragment& old = fragments_[from.value];
  Fragment& now = fragments_[to.value];
  SP_CHECK(old.start == now.start, "two translations of different code");
  places_.at(now.start).fragment = to.value + 1;
  for (uint32_t at = std::exchange(old.incoming, 0); at != 0;) {
    const uint32_t exit_index = at - 1;
    at = exits_[exit_index].next_incoming;
    link(exit_index, to);
  }
  for (uint32_t at = std::exchange(old.first_entry, 0); at != 0;) {
    const uint32_t index = at - 1;
    Entry& entry = entries_[index];
    at = entry.next_of_fragment;
    write_jump_field(entry.body_field, now.body);
    entry.target = to;
    entry.next_of_fragment = std::exchange(now.first_entry, index + 1);
  }
}

size_t CodeCache::invalidate(GuestRange range) {
  std::vector<FragmentId> doomed;
  const auto collect = [&](const std::vector<FragmentId>& ids) {
    for (FragmentId id : ids) {
      const auto made_of = ranges(fragments_[id.value]);
      if (std::any_of(made_of.begin(), made_of.end(),
                      [&](const GuestRange& r) { return r.overlaps(range); })) {
        doomed.push_back(id);
      }
    }
  };
  const uint64_t pages = (range.size() >> 12) + 2;
  if (pages < by_page_.size()) {
    for (GuestAddr p = range.start.page(); p < range.end; p = p + limits::kPageBytes) {
      if (const auto it = by_page_.find(p); it != by_page_.end()) collect(it->second);
    }
  } else {
    for (const auto& [page, ids] : by_page_) {
      if (range.overlaps({page, page + limits::kPageBytes})) collect(ids);
    }
  }
  for (FragmentId id : doomed) drop(id);
  return doomed.size();
}

void CodeCache::flush() {
  flushes_++;
  for (size_t i = 0; i < kBranchTableEntries; i++) {
    if (std::exchange(buckets_[i], 0) != 0) set_branch(i, base_ + lookup_);
    if (std::exchange(open_buckets_[i], 0) != 0) set_open(i, 0);
  }
  sites_.clear();
  places_.clear();
  by_page_.clear();
  regions_.clear();
  fragments_.clear();
  exits_.clear();
  points_.clear();
  ranges_.clear();
  entries_.clear();
  counter_owners_.clear();
  pending_entry_.reset();
  used_ = first_fragment_offset_;
}

void CodeCache::attach_slot(uint8_t* slot) {
  auto* table = reinterpret_cast<uint64_t*>(slot + kBranchTableOffset);
  std::fill_n(table, kBranchTableEntries, base_ + lookup_);
  for (size_t i = 0; !entries_.empty() && i < kBranchTableEntries; i++)
    if (buckets_[i] != 0) table[i] = base_ + entries_[buckets_[i] - 1].code;
  slots_.push_back(slot);
}

void CodeCache::detach_slot(uint8_t* slot) { std::erase(slots_, slot); }

CachePosition CodeCache::locate_in_gateway(uint32_t offset) const {
  CachePosition at;
  at.kind = CachePosition::Kind::between;
  if (offset == syscall_trap_) at.kind = CachePosition::Kind::syscall_trap;
  if (offset == syscall_ || std::ranges::count(mask_reads_, offset) != 0)
    at.kind = CachePosition::Kind::before_syscall;
  if (offset == after_syscall_) at.kind = CachePosition::Kind::after_syscall;
  if (offset == call_over_) at.kind = CachePosition::Kind::call_over;
  if (offset == turn_over_) at.kind = CachePosition::Kind::turn_over;
  if (offset == branch_miss_) at.kind = CachePosition::Kind::branch_miss;
  if (log_full_ != 0 && offset == log_full_) at.kind = CachePosition::Kind::log_full;
  return at;
}

CachePosition CodeCache::locate_in_fragment(const Fragment& f, uint32_t offset) const {
  CachePosition at;
  at.fragment = id_of(f);
  at.kind = CachePosition::Kind::between;
  if (offset == f.body && !f.live) {
    at.kind = CachePosition::Kind::stale;
    return at;
  }
  if (f.stale_trap != 0 && offset == f.stale_trap) {
    at.kind = CachePosition::Kind::stale;
    return at;
  }
  const auto all = points(f);
  const auto it = std::lower_bound(
      all.begin(), all.end(), offset - f.body,
      [](const Point& p, uint32_t wanted) { return p.cache_offset < wanted; });
  if (it != all.end() && it->cache_offset == offset - f.body) {
    at.kind = CachePosition::Kind::point;
    at.point = *it;
    return at;
  }
  for (uint32_t i = f.first_exit; i < f.first_exit + f.exit_count; i++) {
    if (exits_[i].jump_field != 0 && offset == exits_[i].jump_field + 4) {
      at.kind = CachePosition::Kind::unlinked_exit;
      at.exit = i;
    }
  }
  return at;
}

CachePosition CodeCache::locate(uint64_t pc) const {
  CachePosition at;
  if (!contains(pc)) return at;
  const auto offset = static_cast<uint32_t>(pc - base_);
  if (offset < first_fragment_offset_) return locate_in_gateway(offset);
  auto it = std::upper_bound(regions_.begin(), regions_.end(), offset,
                             [](uint32_t wanted, const Region& r) { return wanted < r.body; });
  if (it != regions_.begin()) {
    const Fragment& f = fragments_[std::prev(it)->fragment.value];
    if (offset < f.code_end) return locate_in_fragment(f, offset);
  }
  at.kind = CachePosition::Kind::between;  // an indirect entry
  return at;
}

}  // namespace shadowprof::emu
