// SPDX-License-Identifier: MIT
#include "emu/code_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "emu/emitter.h"

namespace shadowprof::emu {
namespace {

constexpr size_t kMaxFragments = size_t{1} << 23;
constexpr size_t kMaxExits = size_t{1} << 26;
constexpr size_t kMaxPoints = size_t{1} << 27;
constexpr size_t kEntryMaxBytes = 96;
constexpr uint32_t kFragmentAlignment = 16;

}  // namespace

Result<std::unique_ptr<CodeCache>> CodeCache::create(size_t bytes) {
  UniqueFd fd(::memfd_create("shadowprof-code", MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "cannot create the code cache (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail_errno(errno, "cannot size the code cache to {} bytes", bytes);
  }
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (p == MAP_FAILED) return fail_errno(errno, "cannot map the code cache of {} bytes", bytes);
  return std::unique_ptr<CodeCache>(new CodeCache(std::move(fd), static_cast<uint8_t*>(p), bytes));
}

CodeCache::CodeCache(UniqueFd memfd, uint8_t* host, size_t size)
    : memfd_(std::move(memfd)),
      host_(host),
      size_(size),
      fragments_(kMaxFragments),
      exits_(kMaxExits),
      points_(kMaxPoints),
      branch_table_(kBranchTableEntries, 0) {}

CodeCache::~CodeCache() { ::munmap(host_, size_); }

void CodeCache::place_at(uint64_t guest_base) {
  CHECK(base_ == 0, "the cache has its place already");
  base_ = guest_base;
  emit_gateway();
  std::fill(branch_table_.begin(), branch_table_.end(), branch_miss_address());
  used_ = first_fragment_offset_;
}

// The gateway: rcx holds the guest address behind the system call instruction; rcx and r11 are
// free, since the system call itself overwrites them.
void CodeCache::emit_gateway() {
  Emitter e({host_, size_}, base_);
  e.int3();  // nothing is ever at offset 0

  gateway_ = e.offset();
  e.store_gs(offsetof(StatePage, next_pc), decoder::kRcx);
  e.movzx_ecx_ax();
  e.count_gs_rcx(kSyscallCountsOffset);
  e.load_byte_gs_rcx(kSyscallKindsOffset);
  const uint32_t to_tracer = e.jrcxz_forward();
  e.add_imm_to_rcx(-static_cast<int32_t>(SyscallKind::execute));
  const uint32_t plain = e.jrcxz_forward();
  e.bytes({0x0f, 0xb6, 0xca});                                // movzx ecx, dl
  e.load_byte_gs_rcx(offsetof(StatePage, mmap_prot_plain));
  const uint32_t maps_code = e.jrcxz_forward();
  e.bytes({0x41, 0x0f, 0xb6, 0xca});                          // movzx ecx, r10b
  e.load_byte_gs_rcx(offsetof(StatePage, mmap_flags_plain));
  const uint32_t maps_fixed = e.jrcxz_forward();
  e.land_rel8(plain);
  syscall_ = e.offset();
  e.syscall();
  after_syscall_ = e.offset();
  e.load_gs(decoder::kRcx, offsetof(StatePage, next_pc));
  e.store_gs(offsetof(StatePage, spill_rcx), decoder::kRcx);
  e.store_gs(offsetof(StatePage, spill_rdx), decoder::kRdx);
  e.movzx_edx_cx();
  e.jmp_table_rdx(kBranchTableOffset);
  e.land_rel8(to_tracer);
  e.land_rel8(maps_code);
  e.land_rel8(maps_fixed);
  syscall_trap_ = e.offset();
  e.int3();
  gateway_end_ = e.offset();

  branch_miss_ = e.offset();
  e.int3();
  first_fragment_offset_ = (e.offset() + kFragmentAlignment) & ~(kFragmentAlignment - 1);
}

std::span<uint8_t> CodeCache::room(size_t bytes) {
  if (used_ + bytes > size_ || fragments_.size() + 1 >= kMaxFragments) return {};
  return {host_ + used_, size_ - used_};
}

FragmentId CodeCache::commit(Fragment fragment, std::span<const Point> points,
                             std::span<const Exit> exits, size_t code_bytes) {
  const FragmentId id(static_cast<uint32_t>(fragments_.size()));
  fragment.body = used_;
  fragment.code_end = used_ + static_cast<uint32_t>(code_bytes);
  fragment.first_point = static_cast<uint32_t>(points_.size());
  fragment.point_count = static_cast<uint16_t>(points.size());
  fragment.first_exit = static_cast<uint32_t>(exits_.size());
  fragment.exit_count = static_cast<uint8_t>(exits.size());
  for (const Point& p : points) points_.push_back(p);
  for (const Exit& e : exits) exits_.push_back(e);
  fragments_.push_back(fragment);
  regions_.push_back({fragment.body, id});
  by_start_[fragment.start] = id;
  for (GuestAddr page = fragment.start.page(); page < fragment.end; page = page + limits::kPageBytes) {
    by_page_[page].push_back(id);
  }
  used_ = (fragment.code_end + kFragmentAlignment - 1) & ~(kFragmentAlignment - 1);
  if (pending_entry_.start != 0) {
    publish_entry(id, pending_entry_);
    pending_entry_ = {};
  }
  return id;
}

// Arrives with rcx = target of the branch, the guest's rcx and rdx spilled.
CodeCache::EntryCode CodeCache::emit_entry(GuestAddr start, uint32_t body) {
  Emitter e({host_ + used_, size_ - used_}, base_ + used_);
  const bool near_zero = start.value <= INT32_MAX;
  if (near_zero) {
    e.add_imm_to_rcx(-static_cast<int32_t>(start.value));
  } else {
    e.mov_imm(decoder::kRdx, -start.value);
    e.add_rdx_to_rcx();
  }
  const uint32_t hit = e.jrcxz_forward();
  if (near_zero) {
    e.add_imm_to_rcx(static_cast<int32_t>(start.value));
  } else {
    e.mov_imm(decoder::kRdx, start.value);
    e.add_rdx_to_rcx();
  }
  while ((used_ + e.offset() + 1) % 64 > 60) e.byte(0x90);     // nop
  e.jmp_rel32(branch_miss_address());
  const uint32_t chain_field = used_ + e.offset() - 4;
  e.land_rel8(hit);
  e.load_gs(decoder::kRcx, offsetof(StatePage, spill_rcx));
  e.load_gs(decoder::kRdx, offsetof(StatePage, spill_rdx));
  if (body != 0) e.jmp_rel32(base_ + body);
  return {used_, chain_field, used_ + e.offset()};
}

void CodeCache::publish_entry(FragmentId id, const EntryCode& entry) {
  Fragment& f = fragments_[id.value];
  f.entry = entry.start;
  f.entry_chain = entry.chain_field;
  const size_t index = branch_index(f.start.value);
  auto& bucket = buckets_[index];
  if (!bucket.empty()) {
    write_jump_field(f.entry_chain, fragments_[bucket.back().value].entry);
  }
  bucket.push_back(id);
  set_branch(index, base_ + f.entry);
}

void CodeCache::begin_entry(GuestAddr start) {
  if (used_ + kEntryMaxBytes > size_) return;
  pending_entry_ = emit_entry(start, 0);
  used_ = pending_entry_.end;
}

void CodeCache::add_entry(FragmentId id) {
  const Fragment& f = fragments_[id.value];
  if (f.entry != 0 || used_ + kEntryMaxBytes > size_) return;
  const EntryCode entry = emit_entry(f.start, f.body);
  used_ = (entry.end + kFragmentAlignment - 1) & ~(kFragmentAlignment - 1);
  publish_entry(id, entry);
}

void CodeCache::remove_entry(FragmentId id) {
  Fragment& f = fragments_[id.value];
  if (f.entry == 0) return;
  const size_t index = branch_index(f.start.value);
  auto& bucket = buckets_[index];
  const auto it = std::find(bucket.begin(), bucket.end(), id);
  CHECK(it != bucket.end(), "an indirect entry outside its bucket");
  const uint32_t next = it == bucket.begin() ? branch_miss_ : fragments_[(it - 1)->value].entry;
  if (it + 1 == bucket.end()) {
    set_branch(index, base_ + next);
  } else {
    write_jump_field(fragments_[(it + 1)->value].entry_chain, next);
  }
  bucket.erase(it);
  f.entry = 0;
}

void CodeCache::set_branch(size_t index, uint64_t target) {
  branch_table_[index] = target;
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
  if (e.jump_field == 0 || e.linked != 0 || !target.live) return;
  e.linked = to.value + 1;
  e.next_incoming = target.incoming;
  target.incoming = exit_index + 1;
  write_jump_field(e.jump_field, target.body);
}

void CodeCache::unlink_incoming(Fragment& f) {
  for (uint32_t at = f.incoming; at != 0;) {
    Exit& e = exits_[at - 1];
    write_jump_field(e.jump_field, e.jump_field + 4);
    e.linked = 0;
    at = std::exchange(e.next_incoming, 0);
  }
  f.incoming = 0;
}

const Fragment* CodeCache::find(GuestAddr start) const {
  const auto it = by_start_.find(start);
  return it == by_start_.end() ? nullptr : &fragments_[it->second.value];
}

void CodeCache::drop(FragmentId id) {
  Fragment& f = fragments_[id.value];
  if (!f.live) return;
  unlink_incoming(f);
  remove_entry(id);
  f.live = false;
  host_[f.body] = 0xcc;  // a thread that is on its way here traps
  const auto it = by_start_.find(f.start);
  if (it != by_start_.end() && it->second == id) by_start_.erase(it);
  for (GuestAddr page = f.start.page(); page < f.end; page = page + limits::kPageBytes) {
    std::erase(by_page_[page], id);
  }
}

size_t CodeCache::invalidate(GuestRange range) {
  std::vector<FragmentId> doomed;
  const auto collect = [&](const std::vector<FragmentId>& ids) {
    for (FragmentId id : ids) {
      const Fragment& f = fragments_[id.value];
      if (range.overlaps({f.start, f.end})) doomed.push_back(id);
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
  for (const auto& [index, bucket] : buckets_) {
    if (!bucket.empty()) set_branch(index, branch_miss_address());
  }
  buckets_.clear();
  by_start_.clear();
  by_page_.clear();
  regions_.clear();
  fragments_.clear();
  exits_.clear();
  points_.clear();
  pending_entry_ = {};
  used_ = first_fragment_offset_;
}

void CodeCache::attach_slot(uint8_t* slot) {
  std::memcpy(slot + kBranchTableOffset, branch_table_.data(), kBranchTableBytes);
  slots_.push_back(slot);
}

void CodeCache::detach_slot(uint8_t* slot) { std::erase(slots_, slot); }

CachePosition CodeCache::locate_in_gateway(uint32_t offset) const {
  CachePosition at;
  at.kind = CachePosition::Kind::between;
  if (offset == syscall_trap_) at.kind = CachePosition::Kind::syscall_trap;
  if (offset == syscall_) at.kind = CachePosition::Kind::before_syscall;
  if (offset == after_syscall_) at.kind = CachePosition::Kind::after_syscall;
  if (offset == branch_miss_) at.kind = CachePosition::Kind::branch_miss;
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
