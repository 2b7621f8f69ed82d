// SPDX-License-Identifier: MIT
#include "shadow/shadow_space.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "inject/arena.h"
#include "kernel/table.h"
#include "shadow/system_calls.h"

namespace shadowprof::shadow {
namespace {

constexpr size_t kCacheBytes = size_t{128} << 20;

// A replica makes nothing that we have not looked at, but for calls that only ask: the thread makes
// those itself, without a stop.
bool may_execute_unseen(const kernel::SyscallRow& row) {
  using kernel::SyscallFlag;
  if (row.handler != kernel::SyscallHandler::make) return false;
  const SyscallFlag seen[] = {
      SyscallFlag::fd,     SyscallFlag::memory_map, SyscallFlag::pid,   SyscallFlag::thread_state,
      SyscallFlag::signal, SyscallFlag::process,    SyscallFlag::blocks, SyscallFlag::returns_fd};
  return std::none_of(std::begin(seen), std::end(seen), [&](SyscallFlag f) { return row.has(f); });
}

void initialise(inject::Slot& slot) {
  slot.initialise();
  uint8_t* kinds = slot.host + emu::kSyscallKindsOffset;
  std::memset(kinds, static_cast<int>(emu::SyscallKind::tracer), emu::kSyscallKindsBytes);
  for (const kernel::SyscallRow& row : kernel::all_syscalls()) {
    if (may_execute_unseen(row)) kinds[row.nr] = static_cast<uint8_t>(emu::SyscallKind::execute);
  }
  slot.opened = true;
}

}  // namespace

ShadowSpace::ShadowSpace(trace::BlockTable& table, std::unique_ptr<emu::CodeCache> cache,
                         inject::SlotGroup slots, const SpaceOptions& options)
    : table_(table),
      code_(Tid(), table),
      cache_(std::move(cache)),
      translator_(*cache_, table, code_, options.translator),
      options_(options),
      windows_(*cache_, translator_, table),
      group_(std::move(slots)) {
  code_.distrust_generated_code();
}

Result<std::unique_ptr<ShadowSpace>> ShadowSpace::create(trace::BlockTable& table,
                                                         const SpaceOptions& options) {
  SP_ASSIGN(auto cache, emu::CodeCache::create(kCacheBytes, emu::Recording::trace,
                                               options.seen_enough != nullptr));
  SP_ASSIGN(auto group, inject::SlotGroup::create(emu::Recording::trace));
  return std::unique_ptr<ShadowSpace>(
      new ShadowSpace(table, std::move(cache), std::move(group), options));
}

Status ShadowSpace::prepare(Tid replica, const std::vector<kernel::Mapping>& mappings) {
  unwinder_.set_mappings(mappings);
  const bool shared = std::any_of(slots_.begin(), slots_.end(), [](auto& s) { return s->in_use; });
  if (shared) {
    if (!code_.agrees_with(replica, mappings)) {
      return fail_errno(EBUSY, "another replica runs code that is not there any more");
    }
    serve(replica);
    return {};
  }
  for (const GuestRange& range : code_.rebind(replica, mappings)) {
    translator_.forget_code();
    cache_->invalidate(range);
  }
  return code_.find_syscall_insn(mappings);
}

void ShadowSpace::serve(Tid replica) {
  if (code_.memory().tid() != replica) code_.look_through(replica);
}

Status ShadowSpace::map_into(ptrace::RemoteSyscalls& remote,
                             const std::vector<kernel::Mapping>& mappings) {
  const Tid replica = code_.memory().tid();
  const bool first = cache_->base() == 0;
  const uint64_t wanted =
      first ? inject::cache_address(mappings, replica, cache_->size()) : cache_->base();
  SP_ASSIGN(const GuestAddr at, inject::map_memfd(remote, replica, cache_->memfd(), cache_->size(),
                                                  PROT_READ | PROT_EXEC, wanted));
  if (first) {
    place_at(at);
  } else if (at.value != wanted) {
    return fail_errno(EEXIST, "the program has mapped memory at {:#x}", wanted);
  }
  return map_slots(remote);
}

void ShadowSpace::place_at(GuestAddr at) {
  cache_->place_at(at.value);
  code_.exclude({at, at + cache_->size()});
}

Status ShadowSpace::look_at_program(Tid program, const std::vector<kernel::Mapping>& mappings) {
  SP_TRY(prepare(program, mappings));
  if (cache_->base() != 0) return {};
  const GuestAddr at(inject::cache_address(mappings, program, cache_->size()));
  if (at.value == 0) return fail("there is no place for the code cache yet");
  place_at(at);
  return {};
}

size_t ShadowSpace::translate_ahead(std::span<const GuestAddr> pcs, size_t limit,
                                    emu::CapturePlan plan, emu::TranslationCost& cost) {
  emu::FragmentFinder finder(*cache_, translator_, table_, plan, cost);
  return prefill_.translate(*cache_, finder, pcs, limit);
}

void ShadowSpace::turn_windows(const inject::TraceSink& sink) {
  if (options_.seen_enough == nullptr) return;
  for (const trace::RunMailbox::Request& request : options_.seen_enough->take())
    windows_.answer(request, *options_.seen_enough, sink.submitted());
  windows_.turn(options_.capture_one_in);
}

Status ShadowSpace::map_slots(ptrace::RemoteSyscalls& remote) {
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  const bool first = slots_.empty();
  const uint64_t wanted =
      first ? (cache_->base() - group_.bytes - inject::kOddOffset) & ~0xfffull : group_.guest_base;
  SP_ASSIGN(const GuestAddr at, inject::map_memfd(remote, code_.memory().tid(), group_.memfd.get(),
                                                  group_.bytes, kReadWrite, wanted));
  if (!first && at.value != wanted) {
    return fail_errno(EEXIST, "the program has mapped memory at {:#x}", wanted);
  }
  group_.guest_base = at.value;
  for (size_t i = 0; i < inject::kSlotsPerGroup && first; i++) {
    auto slot = std::make_unique<inject::Slot>();
    const size_t offset = i * emu::slot_bytes(emu::Recording::trace);
    slot->host = group_.host + offset;
    slot->guest = group_.guest_base + offset;
    slots_.push_back(std::move(slot));
  }
  return {};
}

inject::Slot* ShadowSpace::acquire_slot() {
  const auto it =
      std::find_if(slots_.begin(), slots_.end(), [](const auto& s) { return !s->in_use; });
  if (it == slots_.end()) return nullptr;
  inject::Slot& slot = **it;
  if (!slot.opened) {
    initialise(slot);
    cache_->attach_slot(slot.host);
  }
  slot.in_use = true;
  return &slot;
}

Status ShadowSpace::guard(ptrace::RemoteSyscalls& remote, const inject::Slot& slot) {
  for (size_t i = 0; i < emu::kBufferCount; i++) {
    SP_TRY(remote.mprotect(GuestAddr(slot.buffer_end(i)), limits::kPageBytes, PROT_NONE));
  }
  return {};
}

void ShadowSpace::release_slot(inject::Slot* slot) {
  slot->in_use = false;
}

}  // namespace shadowprof::shadow
