// SPDX-License-Identifier: MIT
#include "inject/address_space.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <utility>

#include "inject/arena.h"

namespace shadowprof::inject {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr size_t kCacheBytes = size_t{128} << 20;
constexpr size_t kSmallCacheBytes = size_t{16} << 20;  // for programs with little address space

uint64_t address_space_limit(Tid process) {
  rlimit limit{};
  if (::prlimit(process.value, RLIMIT_AS, nullptr, &limit) != 0) return RLIM_INFINITY;
  return limit.rlim_cur;
}

}  // namespace

Result<std::unique_ptr<AddressSpace>> AddressSpace::create(ptrace::Tracee thread, Tid process,
                                                           trace::BlockTable& table,
                                                           const SpaceOptions& space_options,
                                                           ptrace::TraceOptions options,
                                                           std::vector<siginfo_t>& deferred,
                                                           GuestRange avoided) {
  SP_ASSIGN(auto mappings, kernel::read_maps(thread.tid()));
  const bool limited = address_space_limit(process) != RLIM_INFINITY;
  SP_ASSIGN(auto cache, emu::CodeCache::create(limited ? kSmallCacheBytes : kCacheBytes,
                                               space_options.recording));
  std::unique_ptr<AddressSpace> space(
      new AddressSpace(process, table, std::move(cache), space_options));
  space->code_.look_through(thread.tid());
  if (space_options.native_between) space->code_.distrust_generated_code();

  SP_TRY(space->code_.find_syscall_insn(mappings));
  if (avoided.size() != 0) {
    mappings.emplace_back().range = avoided;
  }
  ptrace::RemoteSyscalls remote(thread, space->code_.syscall_insn(), options);
  remote.keep_signals_in(deferred);
  SP_TRY(space->map_cache(remote, mappings));
  SP_TRY(space->add_slot_group(remote));
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  return space;
}

Status AddressSpace::map_cache(ptrace::RemoteSyscalls& remote,
                               const std::vector<kernel::Mapping>& mappings) {
  const size_t bytes = cache_->size();
  const uint64_t wanted = cache_address(mappings, code_.memory().tid(), bytes);
  SP_ASSIGN(const GuestAddr at,
            map_memfd(remote, process_, cache_->memfd(), bytes, PROT_READ | PROT_EXEC, wanted));
  cache_->place_at(at.value);
  code_.exclude({at, at + bytes});
  return {};
}

// Maps `group` behind the first one's memory, for a process that may not open another file and
// whose limit we may not raise: mremap of no bytes of a shared mapping maps it a second time, as
// long as is asked for (mremap(2)).
Result<GuestAddr> AddressSpace::map_without_fd(ptrace::RemoteSyscalls& remote, SlotGroup& group) {
  SP_ASSIGN(group, SlotGroup::create_behind(groups_.front(), groups_.size(), cache_->recording()));
  const uint64_t skipped = groups_.size() * group.bytes;
  SP_ASSIGN(const int64_t at, remote.call(SYS_mremap, groups_.front().guest_base, 0,
                                          skipped + group.bytes, MREMAP_MAYMOVE, 0));
  if (at < 0 && at > -4096) return fail_errno(static_cast<int>(-at), "mremap in the program");
  const GuestAddr twice(static_cast<uint64_t>(at));
  SP_TRY(remote.munmap(twice, skipped));
  if (has_trace(cache_->recording())) {
    SP_TRY(remote.mprotect(twice + skipped, group.bytes, PROT_NONE));
  }
  SP_TRY(remote.madvise(twice + skipped, group.bytes, MADV_DONTFORK));
  SP_TRY(remote.madvise(twice + skipped, group.bytes, MADV_DONTDUMP));
  return twice + skipped;
}

Status AddressSpace::add_slot_group(ptrace::RemoteSyscalls& remote) {
  SP_ASSIGN(SlotGroup group, SlotGroup::create(cache_->recording()));
  const uint64_t wanted =
      slots_address(cache_->base(), group.bytes, group.bytes * groups_.size());
  const int protection = has_trace(cache_->recording()) ? PROT_NONE : kReadWrite;
  auto mapped = map_memfd(remote, process_, group.memfd.get(), group.bytes, protection, wanted);
  if (!mapped && mapped.error().errno_value == EMFILE && !groups_.empty()) {
    mapped = map_without_fd(remote, group);
  }
  SP_ASSIGN(const GuestAddr at, std::move(mapped));
  group.guest_base = at.value;
  for (size_t i = 0; i < kSlotsPerGroup; i++) {
    auto slot = std::make_unique<Slot>();
    const size_t offset = i * emu::slot_bytes(cache_->recording());
    slot->host = group.host + offset;
    slot->guest = group.guest_base + offset;
    slots_.push_back(std::move(slot));
  }
  groups_.push_back(std::move(group));
  return {};
}

// All of it but the guard pages. Without them, it is open already.
Status AddressSpace::open_slot(ptrace::RemoteSyscalls& remote, Slot& slot) {
  if (has_trace(cache_->recording())) {
    SP_TRY(remote.mprotect(GuestAddr(slot.guest), emu::buffer_offset(0) + limits::kTraceBufferBytes,
                           kReadWrite));
    if (has_counts(cache_->recording())) {
      SP_TRY(remote.mprotect(GuestAddr(slot.guest + counters_offset(cache_->recording())),
                             counters_bytes(cache_->recording()), kReadWrite));
    }
    for (size_t i = 1; i < emu::kBufferCount; i++) {
      SP_TRY(
          remote.mprotect(GuestAddr(slot.buffer_guest(i)), limits::kTraceBufferBytes, kReadWrite));
    }
  }
  slot.initialise();
  slot.opened = true;
  return {};
}

GuestAddr AddressSpace::syscall_insn() {
  if (!code_.has_syscall_insn()) {
    const auto mappings = kernel::read_maps(code_.memory().tid());
    if (mappings) (void)code_.find_syscall_insn(*mappings);  // else it is dying
  }
  return code_.syscall_insn();
}

Status AddressSpace::make_room(ptrace::Tracee thread, ptrace::TraceOptions options, size_t slots,
                               std::vector<siginfo_t>& deferred) {
  if (slots_.size() >= slots) return {};
  ptrace::RemoteSyscalls remote(thread, syscall_insn(), options);
  remote.keep_signals_in(deferred);
  while (slots_.size() < slots) SP_TRY(add_slot_group(remote));
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  return {};
}

bool AddressSpace::has_free_slot() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& s) { return !s->in_use; });
}

Result<Slot*> AddressSpace::acquire_slot(ptrace::Tracee thread, ptrace::TraceOptions options,
                                         std::vector<siginfo_t>& deferred) {
  const auto unused = [](const std::unique_ptr<Slot>& s) { return !s->in_use; };
  auto it = std::find_if(slots_.begin(), slots_.end(),
                         [&](const auto& s) { return unused(s) && s->opened; });
  if (it == slots_.end()) it = std::find_if(slots_.begin(), slots_.end(), unused);
  if (it == slots_.end() || !(*it)->opened) {
    ptrace::RemoteSyscalls remote(thread, syscall_insn(), options);
    remote.keep_signals_in(deferred);
    if (it == slots_.end()) {
      const auto index = static_cast<ptrdiff_t>(slots_.size());
      SP_TRY(add_slot_group(remote));
      it = slots_.begin() + index;
    }
    SP_TRY(open_slot(remote, **it));
    SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  }
  Slot* slot = it->get();
  slot->in_use = true;
  if (!slot->attached) cache_->attach_slot(slot->host);
  slot->attached = true;
  return slot;
}

void AddressSpace::release_slot(Slot* slot) {
  slot->in_use = false;
  if (keeps_slots_) return;
  cache_->detach_slot(slot->host);
  slot->attached = false;
}

Status AddressSpace::unmap(ptrace::RemoteSyscalls& remote) {
  for (const SlotGroup& group : groups_) {
    SP_TRY(remote.munmap(GuestAddr(group.guest_base), group.bytes));
  }
  return remote.munmap(GuestAddr(cache_->base()), cache_->size());
}

void AddressSpace::look_for_changes(Tid running) {
  // The first thread usually lives longest; when it has ended it has no memory.
  Tid through = process_;
  auto mappings = kernel::read_maps(through);
  if (!mappings || mappings->empty()) {
    through = running;
    mappings = kernel::read_maps(through);
  }
  if (!mappings || mappings->empty()) return;  // it is dying
  for (const GuestRange& range : code_.rebind(through, *mappings)) {
    translator_.forget_code();
    cache_->invalidate(range);
  }
}

void AddressSpace::take_counts(const std::function<void(const emu::CounterOwner&, uint64_t)>& use) {
  const std::vector<emu::CounterOwner>& owners = cache_->counter_owners();
  for (uint32_t i = 0; i < owners.size(); i++) {
    uint64_t count = 0;
    for (const auto& slot : slots_) {
      if (slot->opened) count += std::exchange(slot->counters(cache_->recording())[i], 0);
    }
    if (count != 0) use(owners[i], count);
  }
}

bool AddressSpace::is_ours(GuestRange range) const {
  const uint64_t base = cache_->base();
  if (range.overlaps({GuestAddr(base), GuestAddr(base + cache_->size())})) return true;
  return std::any_of(groups_.begin(), groups_.end(), [&](const SlotGroup& g) {
    return range.overlaps({GuestAddr(g.guest_base), GuestAddr(g.guest_base + g.bytes)});
  });
}

void AddressSpace::everything_may_change() {
  code_.everything_may_change();
  cache_->invalidate({GuestAddr(0), GuestAddr(UINT64_MAX & ~0xfffull)});
}

void AddressSpace::mappings_changed(GuestRange range) {
  code_.mappings_changed(range);
  translator_.forget_code();
  cache_->invalidate(range);
}

}  // namespace shadowprof::inject
