// SPDX-License-Identifier: MIT
#include "cache/address_space.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "cache/arena.h"

namespace shadowprof::cache {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

bool is_unused(const std::unique_ptr<Slot>& slot) {
  return !slot->in_use;
}

tl::unexpected<Error> is_taken(uint64_t place) {
  return fail_errno(EEXIST, "the program has mapped memory at {:#x}", place);
}

}  // namespace

AddressSpace::AddressSpace(trace::BlockTable& table, std::unique_ptr<emu::CodeCache> cache,
                           SlotGroup slots, const SpaceOptions& options)
    : table_(table),
      options_(options),
      code_(Tid(), table),
      cache_(std::move(cache)),
      translator_(*cache_, table, code_, options.translator),
      windows_(*cache_, translator_, table) {
  SP_CHECK(options.call_kinds != nullptr);
  if (options.native_between) code_.distrust_generated_code();
  if (options.in_bouts) translator_.capture_in_bouts(*options.in_bouts);
  if (options.order != nullptr) foresight_.emplace(*options.order, table);
  groups_.push_back(std::move(slots));
}

Result<std::unique_ptr<AddressSpace>> AddressSpace::create(trace::BlockTable& table,
                                                           const SpaceOptions& options) {
  SP_ASSIGN(auto cache, emu::CodeCache::create(options.cache_bytes, options.recording,
                                               options.replaces_fragments));
  SP_ASSIGN(auto group, SlotGroup::create(options.recording));
  return std::unique_ptr<AddressSpace>(
      new AddressSpace(table, std::move(cache), std::move(group), options));
}

emu::FragmentFinder AddressSpace::finder(emu::CapturePlan plan, emu::TranslationCost& cost,
                                         std::function<void()> make_room) {
  emu::Foresight* const foresight = foresight_ ? &*foresight_ : nullptr;
  return {*cache_, translator_,          table_,    plan,
          cost,    std::move(make_room), foresight, options_.least_ahead};
}

// --- the guest's code ---

Status AddressSpace::read_code_of(Tid process, Tid thread,
                                  const std::vector<kernel::Mapping>& mappings) {
  process_ = process;
  for (const GuestRange& range : code_.rebind(thread, mappings)) {
    translator_.forget_code();
    cache_->invalidate(range);
  }
  return code_.find_syscall_insn(mappings);
}

void AddressSpace::serve(Tid process) {
  process_ = process;
  if (code_.memory().tid() != process) code_.look_through(process);
}

void AddressSpace::look_for_changes(Tid running) {
  // The first thread usually lives longest; when it has ended it has no memory.
  Tid through = process_;
  auto mappings = kernel::read_maps(through);
  if (!mappings || mappings->empty()) {
    through = running;
    mappings = kernel::read_maps(through);
  }
  if (!mappings || mappings->empty()) return;        // it is dying
  (void)read_code_of(process_, through, *mappings);  // syscall_insn() looks again
}

void AddressSpace::mappings_changed(GuestRange range) {
  code_.mappings_changed(range);
  translator_.forget_code();
  cache_->invalidate(range);
}

void AddressSpace::everything_may_change() {
  code_.everything_may_change();
  translator_.forget_code();
  cache_->invalidate({GuestAddr(0), GuestAddr(UINT64_MAX & ~0xfffull)});
}

GuestAddr AddressSpace::syscall_insn() {
  if (!code_.has_syscall_insn()) {
    const auto mappings = kernel::read_maps(code_.memory().tid());
    if (mappings) (void)code_.find_syscall_insn(*mappings);  // else it is dying
  }
  return code_.syscall_insn();
}

// --- where our memory is ---

void AddressSpace::place_at(GuestAddr at) {
  cache_->place_at(at.value);
  code_.exclude({at, at + cache_->size()});
}

Status AddressSpace::place(const std::vector<kernel::Mapping>& mappings) {
  if (cache_->base() != 0) return {};
  const GuestAddr at(cache_address(mappings, code_.memory().tid(), cache_->size()));
  if (at.value == 0) return fail("there is no place for the code cache yet");
  place_at(at);
  return {};
}

Status AddressSpace::map_into(ptrace::RemoteSyscalls& remote,
                              const std::vector<kernel::Mapping>& mappings) {
  const size_t bytes = cache_->size();
  const bool first = cache_->base() == 0;
  const uint64_t wanted =
      first ? cache_address(mappings, code_.memory().tid(), bytes) : cache_->base();
  SP_ASSIGN(const GuestAddr at,
            map_memfd(remote, cache_->memfd(), bytes, PROT_READ | PROT_EXEC, wanted));
  if (first) {
    place_at(at);
  } else if (at.value != wanted) {
    return is_taken(wanted);
  }
  for (size_t i = 0; i < groups_.size(); i++) SP_TRY(map_group(remote, i));
  return {};
}

Status AddressSpace::unmap(ptrace::RemoteSyscalls& remote) {
  for (const SlotGroup& group : groups_) {
    SP_TRY(remote.munmap(GuestAddr(group.guest_base), group.bytes));
  }
  return remote.munmap(GuestAddr(cache_->base()), cache_->size());
}

bool AddressSpace::is_ours(GuestRange range) const {
  const uint64_t base = cache_->base();
  if (range.overlaps({GuestAddr(base), GuestAddr(base + cache_->size())})) return true;
  return std::any_of(groups_.begin(), groups_.end(), [&](const SlotGroup& g) {
    return range.overlaps({GuestAddr(g.guest_base), GuestAddr(g.guest_base + g.bytes)});
  });
}

// --- slots ---

// The first time it is mapped, a group is given its place, and its slots.
Status AddressSpace::map_group(ptrace::RemoteSyscalls& remote, size_t index) {
  const bool first = groups_[index].guest_base == 0;
  const size_t bytes = groups_[index].bytes;
  const uint64_t wanted =
      first ? slots_address(cache_->base(), bytes, bytes * index) : groups_[index].guest_base;
  const int protection = has_trace(options_.recording) ? PROT_NONE : kReadWrite;
  auto mapped = map_memfd(remote, groups_[index].memfd.get(), bytes, protection, wanted);
  if (!mapped && mapped.error().errno_value == EMFILE && first && index > 0) {
    mapped = map_without_fd(remote, index);
  }
  SP_ASSIGN(const GuestAddr at, std::move(mapped));
  if (!first && at.value != wanted) return is_taken(wanted);
  if (!first) return {};
  SlotGroup& group = groups_[index];
  group.guest_base = at.value;
  for (size_t i = 0; i < kSlotsPerGroup; i++) {
    auto slot = std::make_unique<Slot>();
    const size_t offset = i * emu::slot_bytes(options_.recording);
    slot->host = group.host + offset;
    slot->guest = group.guest_base + offset;
    slots_.push_back(std::move(slot));
  }
  return {};
}

// Maps the group behind the first one's memory, for a process that may not open another file and
// whose limit we may not raise: mremap of no bytes of a shared mapping maps it a second time, as
// long as is asked for (mremap(2)).
Result<GuestAddr> AddressSpace::map_without_fd(ptrace::RemoteSyscalls& remote, size_t index) {
  SP_ASSIGN(groups_[index], SlotGroup::create_behind(groups_.front(), index, options_.recording));
  const size_t bytes = groups_[index].bytes;
  const uint64_t skipped = index * bytes;
  SP_ASSIGN(const int64_t at, remote.call(SYS_mremap, groups_.front().guest_base, 0,
                                          skipped + bytes, MREMAP_MAYMOVE, 0));
  if (at < 0 && at > -4096) return fail_errno(static_cast<int>(-at), "mremap in the program");
  const GuestAddr twice(static_cast<uint64_t>(at));
  SP_TRY(remote.munmap(twice, skipped));
  if (has_trace(options_.recording)) {
    SP_TRY(remote.mprotect(twice + skipped, bytes, PROT_NONE));
  }
  SP_TRY(remote.madvise(twice + skipped, bytes, MADV_DONTFORK));
  SP_TRY(remote.madvise(twice + skipped, bytes, MADV_DONTDUMP));
  return twice + skipped;
}

Status AddressSpace::add_slot_group(ptrace::RemoteSyscalls& remote) {
  SP_ASSIGN(SlotGroup group, SlotGroup::create(options_.recording));
  groups_.push_back(std::move(group));
  const Status mapped = map_group(remote, groups_.size() - 1);
  if (!mapped) groups_.pop_back();
  return mapped;
}

Status AddressSpace::make_room(ptrace::RemoteSyscalls& remote, size_t slots) {
  while (slots_.size() < slots) SP_TRY(add_slot_group(remote));
  return {};
}

// To all of it but the guard pages. Without them, there is access already.
Status AddressSpace::give_access(ptrace::RemoteSyscalls& remote, const Slot& slot) {
  if (!has_trace(options_.recording)) return {};
  SP_TRY(remote.mprotect(GuestAddr(slot.guest), emu::buffer_offset(0) + limits::kTraceBufferBytes,
                         kReadWrite));
  if (has_counts(options_.recording)) {
    SP_TRY(remote.mprotect(GuestAddr(slot.guest + counters_offset(options_.recording)),
                           counters_bytes(options_.recording), kReadWrite));
  }
  for (size_t i = 1; i < emu::kBufferCount; i++) {
    SP_TRY(remote.mprotect(GuestAddr(slot.buffer_guest(i)), limits::kTraceBufferBytes, kReadWrite));
  }
  return {};
}

Status AddressSpace::open_slot(ptrace::RemoteSyscalls& remote) {
  auto it = std::find_if(slots_.begin(), slots_.end(), is_unused);
  if (it == slots_.end()) {
    const auto index = static_cast<ptrdiff_t>(slots_.size());
    SP_TRY(add_slot_group(remote));
    it = slots_.begin() + index;
  }
  Slot& slot = **it;
  SP_TRY(give_access(remote, slot));
  if (!slot.initialised) {
    slot.initialise(options_.call_kinds);
    slot.draw_bouts(options_.share_of_bouts);
  }
  slot.opened = true;
  return {};
}

Slot* AddressSpace::acquire_slot() {
  const auto it = std::find_if(slots_.begin(), slots_.end(),
                               [](const auto& s) { return is_unused(s) && s->opened; });
  if (it == slots_.end()) return nullptr;
  Slot* slot = it->get();
  slot->in_use = true;
  if (!slot->attached) cache_->attach_slot(slot->host);
  slot->attached = true;
  return slot;
}

void AddressSpace::release_slot(Slot* slot) {
  slot->in_use = false;
  if (options_.many_processes) slot->opened = false;
  if (options_.native_between) return;
  cache_->detach_slot(slot->host);
  slot->attached = false;
}

bool AddressSpace::has_free_slot() const {
  return std::any_of(slots_.begin(), slots_.end(), is_unused);
}

bool AddressSpace::is_used() const {
  return !std::all_of(slots_.begin(), slots_.end(), is_unused);
}

void AddressSpace::draw_bouts(double share) {
  options_.share_of_bouts = share;
  for (const auto& slot : slots_)
    if (slot->initialised) slot->draw_bouts(share);
}

void AddressSpace::take_counts(const UseCount& use) {
  for (const auto& slot : slots_) {
    if (slot->opened)
      take_counts(*slot, use);
    else
      slot->retired = 0;
  }
  weights_.clear();
}

// What is logged stays logged, and has been told.
void AddressSpace::take_counts(Slot& slot, const UseCount& use) {
  const std::vector<emu::CounterOwner>& owners = cache_->counter_owners();
  uint64_t* const counters = slot.counters(options_.recording);
  for (uint32_t i = 0; i < owners.size(); i++)
    if (counters[i] != 0) use(slot, owners[i], std::exchange(counters[i], 0));
  slot.retired = logged_instructions(slot);
}

uint64_t AddressSpace::logged_instructions(const Slot& slot) const {
  uint64_t sum = 0;
  const emu::LoggedPair* log = slot.pair_log();
  for (uint64_t i = emu::kLogEntries; i > slot.state().log_left; i--) {
    if (const RunId site(log[i].site); site != emu::kAnySite) sum += table_.run(site).insns;
  }
  return sum;
}

uint64_t AddressSpace::newly_retired(Slot& slot) {
  const uint64_t sum = logged_instructions(slot) + instructions_in(slot);
  return sum - std::exchange(slot.retired, sum);
}

uint64_t AddressSpace::instructions_in_counters() {
  uint64_t sum = 0;
  for (const auto& slot : slots_)
    if (slot->opened) sum += instructions_in(*slot);
  return sum;
}

uint64_t AddressSpace::instructions_in(const Slot& slot) {
  const std::vector<emu::CounterOwner>& owners = cache_->counter_owners();
  for (size_t i = weights_.size(); i < owners.size(); i++)
    weights_.push_back(table_.run(owners[i].run).insns);
  const uint64_t* counters = slot.counters(options_.recording);
  uint64_t sum = 0;
  for (size_t i = 0; i < weights_.size(); i++) sum += counters[i] * weights_[i];
  return sum;
}

}  // namespace shadowprof::cache
