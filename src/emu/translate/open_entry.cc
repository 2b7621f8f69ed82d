// SPDX-License-Identifier: MIT
//
// The part of the code cache for indirect branches that have no counter yet, when counting.
//
// Each (branch, target) pair has an entry of its own, and making one needs a stop. Most pairs come
// a few times only, so their first times are logged: if the target has an open entry, the thread
// writes the pair down and goes on. When the log is full it stops, all pairs in it get entries at
// once, and the log is empty again.
//
// The open table is in the cache itself, one for all threads. Its unused places are 0, so it costs
// memory only where it is used.
#include <atomic>

#include "emu/code_cache.h"
#include "emu/translate/emitter.h"

namespace shadowprof::emu {

using decoder::kRcx;
using decoder::kRdx;

// Entered with rcx = key. On a miss rcx is the key again.
void CodeCache::emit_lookup(Emitter& e) {
  log_full_ = e.offset();
  e.int3();

  lookup_miss_ = e.offset();  // rcx is the target
  e.load_state(kRdx, offsetof(StatePage, site));
  e.not_rdx();
  e.add_rdx_times_8_plus_8_to_rcx();
  e.add_rdx_times_8_plus_8_to_rcx();
  e.jmp_rel32(branch_miss_address());

  const uint32_t nothing = e.offset();
  e.load_state(kRcx, offsetof(StatePage, lookup_target));
  e.jmp_rel32(base_ + lookup_miss_);

  lookup_ = e.offset();
  open_table_ = (lookup_ + 2 * limits::kPageBytes) & ~static_cast<uint32_t>(limits::kPageBytes - 1);
  e.load_state(kRdx, offsetof(StatePage, site));
  e.add_rdx_times_8_to_rcx();
  e.add_rdx_times_8_to_rcx();
  e.store_state(offsetof(StatePage, lookup_target), kRcx);
  e.movzx_edx_cx();
  e.lea_rcx_rip(base_ + open_table_);
  e.load_rcx_table_rdx();
  const uint32_t is_empty = e.jrcxz_forward();
  e.mov(kRdx, kRcx);
  e.load_state(kRcx, offsetof(StatePage, lookup_target));
  e.jmp_rdx();
  e.land_rel8(is_empty);
  e.jmp_rel32(base_ + nothing);
  e.skip_to(open_table_ + static_cast<uint32_t>(kBranchTableBytes));
}

void CodeCache::set_open(size_t index, uint64_t target) {
  auto* entry = reinterpret_cast<uint64_t*>(host_ + open_table_) + index;
  std::atomic_ref(*entry).store(target, std::memory_order_release);
}

void CodeCache::add_open_entry(FragmentId id, BlockId first_block) {
  if (!has_counts(recording_) || !has_room_for_entry()) return;
  const Fragment& f = fragments_[id.value];
  for (uint32_t i = f.first_entry; i != 0; i = entries_[i - 1].next_of_fragment) {
    if (entries_[i - 1].way == Entry::Way::open) return;
  }
  const Entry entry = emit_open_entry(f, first_block);
  used_ = (used_ + kFragmentAlignment - 1) & ~(kFragmentAlignment - 1);
  publish_entry(id, entry);
}

// Arrives with rcx = target.
Entry CodeCache::emit_open_entry(const Fragment& f, BlockId first_block) {
  Emitter e({host_ + used_, size_ - used_}, base_ + used_, recording_);
  const uint64_t target = f.start.value;
  Entry entry;
  entry.way = Entry::Way::open;
  entry.key = target;
  const uint64_t wrong_target = e.here();
  e.add_to_rcx(target);
  while ((e.here() + 1) % 64 > 60) e.byte(0x90);  // nop
  e.jmp_rel32(base_ + lookup_miss_);
  entry.chain_field = used_ + e.offset() - 4;
  const uint64_t log_is_full = e.here();
  e.jmp_rel32(base_ + log_full_);

  entry.code = used_ + e.offset();
  e.add_to_rcx(1 - target);
  e.decrement_rcx_and_jump_unless_zero(wrong_target);
  e.load_state(kRcx, offsetof(StatePage, log_left));
  e.load_state(kRdx, offsetof(StatePage, site));
  e.store_log_site(kPairLogOffset);
  e.store_log_block(kPairLogOffset, first_block.value);
  e.add_imm_to_rcx(-1);
  e.store_state(offsetof(StatePage, log_left), kRcx);
  e.jrcxz_back(log_is_full);
  e.restore_branch_registers();
  emit_jump_to_body(e, entry, f.body);
  used_ += e.offset();
  return entry;
}

}  // namespace shadowprof::emu
