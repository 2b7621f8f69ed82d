// SPDX-License-Identifier: MIT
#include "shadow/executor.h"

#include <sched.h>

#include <csignal>
#include <fstream>
#include <utility>

#include "base/log.h"

namespace shadowprof::shadow {

using emu::CachePosition;
using ptrace::WaitStatus;

namespace {

constexpr unsigned kCountedCalls = 1024;

// Of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst), which is in nanoseconds.
ProcessorTime processor_time_of(Tid tid) {
  std::ifstream file(fmt::format("/proc/{}/schedstat", tid.value));
  ProcessorTime time;
  file >> time.used >> time.waited;
  return {1e-9 * time.used, 1e-9 * time.waited};
}

}  // namespace

Executor::Executor(const trace::BlockTable& table, ShadowSpace& space, inject::TraceSink& sink,
                   Replica replica, Identity identity, Budget budget)
    : table_(table),
      space_(space),
      sink_(sink),
      replica_(std::move(replica)),
      budget_(budget),
      calls_(identity, replica_.tracee.tid(), replica_.descriptors, shared_, space.code(),
             threads_),
      started_(std::chrono::steady_clock::now()) {}

Executor::~Executor() {
  if (!dead_) kill_replica(replica_);
  for (uint64_t ticket : tickets_) sink_.wait(ticket);
  if (slot_) space_.release_slot(slot_);
}

Status Executor::start() {
  SP_ASSIGN(const auto mappings, kernel::read_maps(tid()));
  SP_TRY(space_.prepare(tid(), mappings));
  {
    ptrace::RemoteSyscalls remote(replica_.tracee, space_.syscall_insn(), ptrace::StopSignal::keep,
                                  replica_.filters());
    SP_TRY(space_.map_into(remote, mappings));
    slot_ = space_.acquire_slot();
    if (!slot_) return fail("all {} slots are in use", inject::kSlotsPerGroup);
    SP_TRY(ShadowSpace::guard(remote, *slot_));
    SP_TRY(shared_.protect(remote, mappings));
    SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  }
  make_threads();
  choose_start();
  load(current());
  return {};
}

void Executor::make_threads() {
  for (GuestContext& context : replica_.threads) {
    auto thread = std::make_unique<GuestThread>();
    thread->tid = context.tid;
    thread->registers = context.registers;
    thread->extended = std::move(context.extended);
    threads_.push_back(std::move(thread));
  }
}

void Executor::resume() {
  if (wanted_end_) return end(*wanted_end_);
  (void)replica_.tracee.cont_if_alive();
}

void Executor::end(Outcome outcome, std::string detail) {
  end(Ending{outcome, std::move(detail), -1});
}

// The replica is stopped in guest context, its trace ends at cursor_.
void Executor::end(Ending ending) {
  if (ending_) return;
  ending_ = std::move(ending);
  finish_trace(cursor_);
  take_syscall_counts();
  processor_ = processor_time_of(tid());
  // As an idle process it would also die idly, with locks of the memory that it shares held.
  leave_idle_priority();
  ::kill(tid().value, SIGKILL);
}

ProcessorTime Executor::processor_now() const {
  return processor_time_of(tid());
}

void Executor::leave_idle_priority() {
  const sched_param none{};
  (void)::sched_setscheduler(tid().value, SCHED_OTHER, &none);
}

// Of the calls that the replica made without a stop.
void Executor::take_syscall_counts() {
  uint64_t* counts = slot_->syscall_counts();
  for (unsigned nr = 0; nr < kCountedCalls; nr++) {
    if (counts[nr] != 0) counts_.by_number[nr] += std::exchange(counts[nr], 0);
  }
}

void Executor::request_end(Outcome outcome) {
  if (ending_ || wanted_end_) return;
  wanted_end_ = outcome;
  if (blocked_on_buffer_) return;
  (void)replica_.tracee.interrupt_if_alive();
}

void Executor::on_stop(const WaitStatus& status) {
  if (status.is_dead()) {
    dead_ = true;
    if (!ending_) {
      ending_ = Ending{Outcome::died, {}, -1};
      // What the present buffer holds is lost: only the replica knew how much of it there is.
      if (slot_) finish_trace(start_);
    }
    return;
  }
  if (ending_) return;
  Registers regs;
  if (!replica_.tracee.get_registers_if_alive(regs)) return;
  siginfo_t info{};
  if (status.kind() == WaitStatus::Kind::signal_stop) {
    if (!replica_.tracee.get_siginfo_if_alive(info)) return;
    if (info.si_signo == SIGTRAP && space_.cache().contains(regs.rip - 1)) return on_trap(regs);
    if (info.si_code > 0) return on_fault(regs, info);
    return resume();  // somebody has sent it: it is not the replica's
  }
  // Our interrupt, or a group stop of the process.
  const bool in_buffer = regs.r15 >= start_ && regs.r15 <= slot_->buffer_end(buffer_);
  cursor_ = in_buffer ? regs.r15 : start_;
  resume();
}

// An int3 of ours.
void Executor::on_trap(Registers& regs) {
  const CachePosition at = space_.cache().locate(regs.rip - 1);
  cursor_ = regs.r15;
  if (wanted_end_) return end(*wanted_end_);
  switch (at.kind) {
    case CachePosition::Kind::unlinked_exit:
      return on_miss(regs, at.exit);
    case CachePosition::Kind::branch_miss:
      return on_indirect_miss(regs);
    case CachePosition::Kind::syscall_trap:
      return on_system_call(regs);
    case CachePosition::Kind::stale: {
      const GuestAddr start = space_.cache().fragment(at.fragment).start;
      space_.cache().drop(at.fragment);
      const auto again = fragment_for(start);
      if (!again) return end(Outcome::fault, "code is gone");
      regs.rip = space_.cache().body_address(*again);
      if (replica_.tracee.set_registers_if_alive(regs)) resume();
      return;
    }
    case CachePosition::Kind::point: {
      const emu::Fragment& fragment = space_.cache().fragment(at.fragment);
      const char* reason = fragment.unsupported_reason;
      return end(Outcome::unsupported, reason ? reason : "an instruction for the kernel alone");
    }
    default:
      return end(Outcome::fault, "a breakpoint");
  }
}

void Executor::on_fault(Registers& regs, const siginfo_t& info) {
  const GuestAddr address(reinterpret_cast<uint64_t>(info.si_addr));
  if (info.si_signo == SIGSEGV) {
    const uint64_t guard = slot_->buffer_end(buffer_);
    if (address.value >= guard && address.value < guard + limits::kPageBytes) {
      counts_.drains++;
      if (wanted_end_) {
        cursor_ = regs.r15;
        return end(*wanted_end_);
      }
      return switch_thread(regs, true);
    }
    if (shared_.contains(address)) return make_private(regs, address);
  }
  // The record of the run that it was in has not been written.
  cursor_ = regs.r15;
  end(Outcome::fault, fmt::format("signal {} at {:#x}", info.si_signo, address.value));
}

void Executor::make_private(Registers& regs, GuestAddr address) {
  ptrace::RemoteSyscalls remote(replica_.tracee, space_.syscall_insn(), ptrace::StopSignal::drop,
                                replica_.filters());
  const Status copied = shared_.make_private(remote, calls_.memory(), {address, address + 1});
  const auto stop = remote.finish();
  counts_.private_pages++;
  if (!copied || !stop) {
    cursor_ = regs.r15;
    return end(Outcome::device_memory, copied ? "" : copied.error().message);
  }
  resume();
}

void Executor::on_miss(Registers& regs, uint32_t exit) {
  counts_.misses++;
  const auto id = fragment_for(space_.cache().exit(exit).target);
  if (!id) return end(Outcome::fault, "a jump to where no code is");
  regs.rip = space_.cache().body_address(*id);
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

void Executor::on_indirect_miss(Registers& regs) {
  counts_.misses++;
  const auto id = fragment_for(GuestAddr(regs.rcx));
  if (!id) return end(Outcome::fault, "a jump to where no code is");
  const auto entry = space_.cache().add_entry(*id, {});
  if (!entry) return end(Outcome::no_room, "the code cache is full");
  regs.rip = *entry;
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

std::optional<FragmentId> Executor::fragment_for(GuestAddr pc) {
  if (const emu::Fragment* known = space_.cache().find(pc)) return space_.cache().id_of(*known);
  const auto id = translate(pc);
  if (id) translate_successors(*id);
  return id;
}

std::optional<FragmentId> Executor::translate(GuestAddr pc) {
  const auto start = std::chrono::steady_clock::now();
  const auto made = space_.translator().translate(pc, emu::kAnySite, budget_.plan);
  counts_.translation_s +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (made.outcome != emu::Translator::Outcome::translated) return std::nullopt;
  counts_.fragments++;
  return made.fragment;
}

// One level ahead: where its exits lead and where its calls return to.
void Executor::translate_successors(FragmentId id) {
  emu::CodeCache& cache = space_.cache();
  const emu::Fragment f = cache.fragment(id);
  if (f.checks_itself || f.kind != emu::FragmentKind::translated) return;
  const auto known_or_new = [&](GuestAddr pc) {
    const emu::Fragment* known = cache.find(pc);
    return known ? std::optional(cache.id_of(*known)) : translate(pc);
  };
  for (uint32_t i = f.first_exit; i < f.first_exit + f.exit_count; i++) {
    (void)known_or_new(cache.exit(i).target);
  }
  for (BlockId block_id : table_.blocks(table_.run(f.longest_run))) {
    const trace::Block block = table_.block(block_id);
    const bool returns = block.terminator == trace::Terminator::syscall ||
                         block.terminator == trace::Terminator::call ||
                         block.terminator == trace::Terminator::indirect_call;
    if (!returns) continue;
    if (const auto next = known_or_new(block.end)) (void)cache.add_entry(*next, {});
  }
}

void Executor::on_system_call(Registers& regs) {
  counts_.system_calls++;
  const emu::StatePage& state = slot_->state();
  Registers guest = regs;
  guest.rip = state.next_pc - machine::kSyscallInsnBytes;
  guest.r15 = state.guest_r15;
  guest.gs_base = 0;
  guest.orig_rax = machine::kNoSyscall;
  SyscallAnswer answer;
  {
    ptrace::RemoteSyscalls remote(replica_.tracee, space_.syscall_insn(), ptrace::StopSignal::drop,
                                  replica_.filters());
    answer = calls_.answer(current(), guest, remote);
    if (!remote.finish()) return;  // it is dead: the report will come
  }
  carry_out(guest, std::move(answer));
}

void Executor::carry_out(Registers& guest, SyscallAnswer answer) {
  using Kind = SyscallAnswer::Kind;
  if (answer.kind == Kind::ends) return end(std::move(answer.ending));
  if (answer.kind == Kind::finished) return finish_thread();
  if (answer.kind == Kind::new_thread && !new_thread(guest)) return;
  if (answer.kind != Kind::new_thread) guest.rax = static_cast<uint64_t>(answer.value);
  guest.rip += machine::kSyscallInsnBytes;
  guest.rcx = guest.rip;
  guest.r11 = guest.eflags;
  const bool leaves = answer.kind == Kind::waits || answer.kind == Kind::yields;
  if (leaves && (threads_.size() > 1 || answer.kind == Kind::waits)) {
    return switch_thread(guest, false);
  }
  enter(guest);
}

}  // namespace shadowprof::shadow
