// SPDX-License-Identifier: MIT
#include "shadow/shadow_space.h"

#include <algorithm>
#include <cerrno>

#include "kernel/table.h"

namespace shadowprof::shadow {
namespace {

// A replica makes nothing that we have not looked at, but for calls that only ask: the thread makes
// those itself, without a stop.
bool may_execute_unseen(const kernel::SyscallRow& row) {
  using kernel::SyscallFlag;
  if (row.handler != kernel::SyscallHandler::make) return false;
  const SyscallFlag seen[] = {
      SyscallFlag::fd,     SyscallFlag::memory_map, SyscallFlag::pid,    SyscallFlag::thread_state,
      SyscallFlag::signal, SyscallFlag::process,    SyscallFlag::blocks, SyscallFlag::returns_fd};
  return std::none_of(std::begin(seen), std::end(seen), [&](SyscallFlag f) { return row.has(f); });
}

emu::SyscallKind call_kind(unsigned number) {
  const kernel::SyscallRow* row = kernel::find_syscall(static_cast<long>(number));
  return row != nullptr && may_execute_unseen(*row) ? emu::SyscallKind::execute
                                                    : emu::SyscallKind::tracer;
}

}  // namespace

Result<std::unique_ptr<ShadowSpace>> ShadowSpace::create(trace::BlockTable& table,
                                                         const SpaceOptions& options) {
  SP_ASSIGN(auto space, cache::AddressSpace::create(
                            table, {.recording = emu::Recording::trace,
                                    .translator = options.translator,
                                    .native_between = true,
                                    .many_processes = true,
                                    .replaces_fragments = options.seen_enough != nullptr,
                                    .call_kinds = call_kind,
                                    .in_bouts = options.in_bouts,
                                    .share_of_bouts = options.shares.bouts}));
  return std::unique_ptr<ShadowSpace>(new ShadowSpace(table, std::move(space), options));
}

Status ShadowSpace::prepare(Tid replica, const std::vector<kernel::Mapping>& mappings) {
  unwinder_.set_mappings(mappings);
  if (!space_->is_used()) return space_->read_code_of(replica, replica, mappings);
  if (!code().agrees_with(replica, mappings)) {
    return fail_errno(EBUSY, "another replica runs code that is not there any more");
  }
  serve(replica);
  return {};
}

Status ShadowSpace::look_at_program(Tid program, const std::vector<kernel::Mapping>& mappings) {
  SP_TRY(prepare(program, mappings));
  return space_->place(mappings);
}

size_t ShadowSpace::translate_ahead(std::span<const GuestAddr> pcs, size_t limit,
                                    emu::CapturePlan plan, emu::TranslationCost& cost) {
  emu::FragmentFinder finds = finder(plan, cost);
  return prefill_.translate(cache(), finds, pcs, limit);
}

void ShadowSpace::turn_windows(const trace::TraceSink& sink) {
  if (options_.seen_enough == nullptr) return;
  for (const trace::RunMailbox::Request& request : options_.seen_enough->take())
    space_->windows().answer(request, *options_.seen_enough, sink.submitted());
  space_->windows().turn(options_.shares.windows);
}

void ShadowSpace::show_calls_that_write(cache::Slot& slot, bool all) {
  if (!all && slot.watched.none()) return;
  for (unsigned number = 0; number < cache::kListedCalls; number++) {
    const kernel::SyscallRow* row = kernel::find_syscall(static_cast<long>(number));
    if (row == nullptr || !may_execute_unseen(*row)) continue;
    if (all && !row->has(kernel::SyscallFlag::in_registers)) {
      slot.watch(number);
    } else {
      slot.unwatch(number);
    }
  }
}

Result<cache::Slot*> ShadowSpace::acquire_slot(ptrace::RemoteSyscalls& remote) {
  if (!space_->has_free_slot()) return fail("all {} slots are in use", cache::kSlotsPerGroup);
  SP_TRY(space_->open_slot(remote));
  return space_->acquire_slot();
}

}  // namespace shadowprof::shadow
