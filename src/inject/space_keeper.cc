// SPDX-License-Identifier: MIT
#include "inject/space_keeper.h"

#include <sys/resource.h>

#include <algorithm>
#include <set>
#include <utility>

#include "inject/guest_signals.h"
#include "inject/mend_pointer.h"
#include "kernel/proc.h"
#include "ptrace/start_stack.h"

namespace shadowprof::inject {
namespace {

bool has_little_address_space(Tid process) {
  rlimit limit{};
  return ::prlimit(process.value, RLIMIT_AS, nullptr, &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

Result<SpaceKeeper::Space> SpaceKeeper::enter(ptrace::Tracee thread, const GuestProcess& process,
                                              std::vector<siginfo_t>& deferred) {
  ptrace::Registers regs;
  if (!thread.get_registers_if_alive(regs)) return ptrace::thread_is_gone(thread.tid());
  if (!regs.is_64_bit()) return fail("it is a 32-bit program");
  if (options_.fixed_machine) {
    const bool real = process.machine_share.has_changed_user;
    SP_TRY(ptrace::fix_start(thread, *options_.processor,
                             real ? ptrace::ToldUser::real : ptrace::ToldUser::fixed));
  } else if (options_.processor) {
    SP_TRY(ptrace::tell_processor(thread, *options_.processor));
  }
  return make(thread, process, options_.trace, deferred);
}

Result<SpaceKeeper::Space> SpaceKeeper::make(ptrace::Tracee thread, const GuestProcess& process,
                                             ptrace::TraceOptions options,
                                             std::vector<siginfo_t>& deferred, GuestRange avoided) {
  SP_ASSIGN(auto mappings, kernel::read_maps(thread.tid()));
  cache::SpaceOptions space_options = options_.space;
  if (has_little_address_space(process.pid)) space_options.cache_bytes = cache::kSmallCacheBytes;
  SP_ASSIGN(auto space, cache::AddressSpace::create(table_, space_options));
  SP_TRY(space->read_code_of(process.pid, thread.tid(), mappings));
  if (avoided.size() != 0) mappings.emplace_back().range = avoided;
  ptrace::RemoteSyscalls remote(thread, space->code().syscall_insn(), options);
  remote.keep_signals_in(deferred);
  SP_TRY(space->map_into(remote, mappings));
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  return space;
}

Status SpaceKeeper::replace(GuestThread& t, GuestRange avoided) {
  GuestProcess& process = *t.process;
  for (auto& [tid, other] : guests_.threads) {
    if (other->process != &process || !other->slot) continue;
    mend_unit(process.space->cache(), other->tracee);
    release(*other, trace::EndReason::left_engine);
    records_.traces.take_back_end(trace::EndReason::left_engine);
  }
  GuestCalls remote(t);
  SP_TRY(process.space->unmap(remote));
  SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  const bool all_may_change = process.space->code().may_all_change();
  leave(process);
  SP_ASSIGN(process.space, make(t.tracee, process, options_.trace, t.deferred, avoided));
  if (all_may_change) process.space->everything_may_change();
  t.concluded = false;
  return give_slot(t);
}

GuestThread& SpaceKeeper::add_thread(Tid tid, GuestProcess& process) {
  records_.counts.threads++;
  auto thread = std::make_unique<GuestThread>(tid, process, options_.trace);
  thread->number = records_.counts.threads;
  (void)thread->tracee.get_signal_mask_if_alive(thread->blocked);
  return *(guests_.threads[tid] = std::move(thread));
}

Status SpaceKeeper::give_slot(GuestThread& t) {
  cache::AddressSpace& space = *t.process->space;
  t.slot = space.acquire_slot();
  if (t.slot == nullptr) {
    GuestCalls remote(t, ptrace::StopSignal::keep);
    SP_TRY(space.open_slot(remote));
    SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
    t.slot = space.acquire_slot();
  }
  t.slot->state().leaves = 0;
  t.slot->state().stops_behind_call = 0;
  t.slot->trap_masks(blocks_raised(t));
  t.in_call = false;
  t.slot->state().guest_gs_base = t.guest_gs_base;
  t.buffer = 0;
  const bool is_known = records_.executions.threads().knows(t.tracee.tid());
  if (!is_known) note_name(t);
  if (!is_known || options_.bursts != nullptr)
    records_.executions.threads().add_sample(t.tracee.tid());
  if (machine_ != nullptr) machine_->slot_given(t);
  records_.begin(t);
  return {};
}

// As the kernel shows it now: a thread may give itself another one, and keeps the last.
void SpaceKeeper::note_name(const GuestThread& t) {
  const Tid tid = t.tracee.tid();
  records_.executions.threads().seen(tid, t.process->pid, kernel::thread_name(tid));
}

void SpaceKeeper::look_through_another(const GuestThread& ending) {
  if (!ending.process->space) return;  // killed when it could not be moved
  cache::GuestCode& code = ending.process->space->code();
  if (code.memory().tid() != ending.tracee.tid()) return;
  for (const auto& [tid, t] : guests_.threads) {
    if (t->process == ending.process && t->slot) return code.look_through(tid);
  }
}

void SpaceKeeper::release(GuestThread& t, trace::EndReason reason) {
  if (!t.slot) return;
  records_.conclude(t, reason);
  if (records_.counting()) records_.executions.take(t);
  if (options_.bursts == nullptr) note_name(t);
  t.process->space->release_slot(t.slot);
  t.slot = nullptr;
  if (options_.bursts == nullptr) records_.executions.threads().ended(t.tracee.tid());
}

void SpaceKeeper::forget_thread(Tid tid) {
  GuestThread* t = guests_.find(tid);
  if (t == nullptr) return;
  GuestProcess* process = t->process;
  release(*t, trace::EndReason::exited);
  guests_.threads.erase(tid);
  if (machine_ != nullptr && !guests_.has_threads(*process)) machine_->ended(*process);
  if (options_.bursts != nullptr) return;  // others will come
  leave_unused(*process);
}

// After vfork two processes use it.
void SpaceKeeper::leave(GuestProcess& process) {
  if (process.space && process.space.use_count() == 1)
    records_.executions.take(*process.space, guests_);
  process.space.reset();
}

void SpaceKeeper::leave_unused(GuestProcess& process) {
  if (!process.space) return;
  cache::GuestCode& code = process.space->code();
  for (const auto& [tid, t] : guests_.threads) {
    if (t->process->space != process.space) continue;
    if (!guests_.threads.contains(code.memory().tid())) code.look_through(tid);
    if (t->process == &process) return;
  }
  leave(process);
}

void SpaceKeeper::note_leaving(const GuestProcess& process, const std::string& what) {
  records_.notes.add_leaving(process.pid, what, [this]() -> std::optional<uint64_t> {
    const bool all_taken = std::ranges::none_of(
        guests_.processes, [](const auto& p) { return p.second->space && !p.second->native; });
    if (!records_.counting() || !all_taken) return std::nullopt;
    return records_.executions.instructions();
  });
}

uint64_t SpaceKeeper::instructions_so_far() {
  uint64_t sum = records_.executions.instructions();
  std::set<cache::AddressSpace*> spaces;
  for (auto& [pid, process] : guests_.processes)
    if (process->space && spaces.insert(process->space.get()).second)
      sum += process->space->instructions_in_counters();
  return sum;
}

}  // namespace shadowprof::inject
