// SPDX-License-Identifier: MIT
#include "shadow/executor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <utility>

#include "base/log.h"
#include "ptrace/signal_cause.h"
#include "shadow/file_mappings.h"
#include "shadow/low_priority.h"
#include "shadow/turns.h"

namespace shadowprof::shadow {

using ptrace::WaitStatus;

namespace {

constexpr unsigned kCountedCalls = 1024;
// A system call of the program's own, roughly: a read of a page or two.
constexpr double kCall_s = 2e-6;
// What is captured takes longer than the program itself, and longer than is known. Samples of which
// it is no more than this share of the words tell how fast the program is.
constexpr double kPlainShare = 0.05;

}  // namespace

Executor::Executor(const trace::BlockTable& table, ShadowSpace& space, trace::TraceSink& sink,
                   Replica replica, Identity identity, Budget budget)
    : table_(table),
      space_(space),
      sink_(sink),
      replica_(std::move(replica)),
      budget_(budget),
      calls_(identity, replica_.tracee.tid(), replica_.descriptors, shared_, space.code(), threads_,
             replica_.log.get()),
      branches_(replica_.tracee.tid()) {}

Executor::~Executor() {
  if (!dead_) kill_replica(replica_.tracee.tid());
  for (uint64_t ticket : tickets_) sink_.wait(ticket);
  if (slot_) space_.release_slot(slot_);
}

Status Executor::start() {
  SP_ASSIGN(auto mappings, kernel::read_maps(tid()));
  show_as_in_program(mappings, replica_.mapped_anew);
  SP_TRY(space_.prepare(tid(), mappings));
  {
    ptrace::RemoteSyscalls remote(replica_.tracee, space_.syscall_insn(), kReplica);
    SP_TRY(space_.map_into(remote, mappings));
    SP_ASSIGN(slot_, space_.acquire_slot(remote));
    SP_TRY(shared_.protect(remote, mappings));
    space_.show_calls_that_write(*slot_, shared_.has_writable());
    may_go_native_ = budget_.goes_on && permit_native(remote);
    SP_ASSIGN([[maybe_unused]] const auto stop, remote.finish());
  }
  threads_ = make_threads(replica_);
  // As many samples begin with each.
  if (may_go_native_ && !pass_to(budget_.sample_number % threads_.size()))
    return ptrace::thread_is_gone(tid());
  choose_start();
  pieces_.begins(budget_.seconds);
  if (budget_.seconds > 0) {
    clock_.start(EngineClock::Of::recorded, tid(), budget_.price, {});
    deadline_.start(budget_.seconds);
  }
  space_.turn_windows(sink_);
  placement_.start(tid(), replica_.beside);
  load(current());
  if (replica_.at_idle_priority) lower_priority(tid());
  return {};
}

void Executor::resume() {
  if (wanted_end_) return end(*wanted_end_);
  if (phase_ == Phase::leaving) {
    (void)replica_.tracee.step_if_alive();
  } else {
    (void)replica_.tracee.cont_if_alive();
  }
}

void Executor::end(Outcome outcome, std::string detail) {
  end(Ending{outcome, std::move(detail), -1});
}

// The replica is stopped in guest context, its trace ends at cursor_.
void Executor::end(Ending ending) {
  if (ending_) return;
  ending_ = std::move(ending);
  processor_ = processor_time_of(tid());
  counts_.ended_between = is_between_samples();
  const bool counts = budget_.seconds > 0 && !counts_.ended_between;
  const double seconds = counts ? guest_time() : 0;
  // As an idle process it would also die idly, with locks of the memory that it shares held.
  leave_idle_priority();
  ::kill(tid().value, SIGKILL);
  // Reading them takes time, in which the program would copy pages for a replica that lives.
  finish_trace(cursor_, end_of_trace(ending_->outcome));
  if (counts) guest_seconds_ += program_time(seconds);
  take_syscall_counts();
}

void Executor::leave_idle_priority() {
  if (replica_.at_idle_priority) raise_priority(tid());
  replica_.at_idle_priority = false;
}

// For the calls that the replica made without a stop.
void Executor::take_syscall_counts() {
  uint64_t* counts = slot_->syscall_counts();
  for (unsigned nr = 0; nr < kCountedCalls; nr++) {
    if (counts[nr] != 0) counts_.by_number[nr] += std::exchange(counts[nr], 0);
  }
}

void Executor::request_end(Outcome outcome) {
  if (ending_ || wanted_end_) return;
  wanted_end_ = outcome;
  if (blocked_on_buffer_ || awaited_.waits() || is_stopped()) return;
  (void)replica_.tracee.interrupt_if_alive();
}

void Executor::look_at_clock() {
  if (wanted_end_ || phase_ == Phase::leaving || !deadline_.is_due()) return;
  if (phase_ == Phase::native) return look_at_native_clock();
  if (has_run_for(budget_.seconds) && !leave()) request_end(Outcome::budget);
}

// The program's time since the clock was started; else it is looked at again.
bool Executor::has_run_for(double seconds) {
  const double used = replica_seconds(tid());
  double left = seconds - clock_.seconds_at_most(used, work());
  if (left <= 0) left = seconds - clock_.seconds(used, work());
  const bool has_run = used != std::exchange(used_at_look_, used);
  wait_s_ = has_run ? kLeastWait_s : std::min(kLongestWait_s, 2 * wait_s_);
  if (left > 0) deadline_.start(std::max({left, wait_s_, kWaitShare * clock_.since_start()}));
  return left <= 0;
}

// For the present sample, or for what follows it natively, up to now or its end.
double Executor::guest_time() const {
  return clock_.seconds(ending_ ? processor_.used : replica_seconds(tid()), work());
}

// The program's part of the seconds of a sample, when all of its records are known: what it takes
// to write a word and to time a load is known, too (EngineClock, Budget::timed_load_s).
double Executor::program_time(double seconds) {
  const trace::RecordSums sums = std::exchange(sums_, {});
  const bool is_new = counts_.misses != std::exchange(misses_before_, counts_.misses);
  const bool is_plain =
      static_cast<double>(sums.captured_words) <= kPlainShare * static_cast<double>(sample_words_);
  const uint64_t drained_words = (drained_ - drained_before_) / sizeof(trace::Word);
  const uint64_t words = sample_words_ - std::min(sample_words_, drained_words);
  const double timing = budget_.timed_load_s * static_cast<double>(sums.timed_loads);
  sample_words_ = 0;
  drained_before_ = drained_;
  const double left = EngineClock::without(EngineClock::without_words(seconds, words), timing);
  if (is_plain && !is_new) {
    counts_.plain_instructions += sums.instructions;
    counts_.plain_s += left;
  }
  return left;
}

double Executor::next_idle() const {
  if (blocked_on_buffer_) return kPollForCollectors_s;
  if (dead_ && !tickets_done()) return kPollOfDead_s;
  if (awaited_.waits()) return kPollForProgram_s;
  if (is_stopped() && !ending_ && wanted_end_) return 0;
  if (rests()) return deadline_.seconds_until();
  if (is_idle()) return std::numeric_limits<double>::infinity();
  if (ending_ || wanted_end_ || phase_ == Phase::leaving) {
    return std::numeric_limits<double>::infinity();
  }
  return std::min(deadline_.seconds_until(), placement_.next_look());
}

void Executor::on_stop(const WaitStatus& status) {
  if (status.is_dead()) {
    dead_ = true;
    if (!ending_) {
      ending_ = Ending{Outcome::died, {}, -1};
      // What the present buffer holds is lost: only the replica knew how much of it there is.
      if (slot_) finish_trace(start_, end_of_trace(Outcome::died));
    }
    return;
  }
  if (ending_) return;
  space_.serve(tid());
  Registers regs;
  if (!replica_.tracee.get_registers_if_alive(regs)) return;
  if (phase_ == Phase::native) return on_native_stop(status, regs);
  siginfo_t info{};
  if (status.kind() == WaitStatus::Kind::signal_stop) {
    if (!replica_.tracee.get_siginfo_if_alive(info)) return;
    const cache::Stop stop = cache::decode_stop(space_.cache(), *slot_, buffer_, regs, info);
    return on_signal_stop(stop, regs, info);
  }
  // Our interrupt, or a group stop of the process.
  const bool in_buffer = regs.r15 >= start_ && regs.r15 <= slot_->buffer_end(buffer_);
  cursor_ = in_buffer ? regs.r15 : start_;
  if (phase_ == Phase::leaving && !wanted_end_ && !has_raised_signal()) return step_out(regs);
  resume();
}

// A stop of ours is reported before a signal that an instruction has raised already: registers say
// nothing of where the guest is until that comes.
bool Executor::has_raised_signal() {
  ptrace::SignalMask pending = 0;
  return replica_.tracee.get_pending_signals_if_alive(pending) &&
         (pending & ptrace::kInstructionSignals) != 0;
}

void Executor::on_signal_stop(const cache::Stop& stop, Registers& regs, const siginfo_t& info) {
  using Kind = cache::Stop::Kind;
  if (stop.is_trap()) {
    cursor_ = regs.r15;
    if (wanted_end_) return end(*wanted_end_);
  }
  switch (stop.kind) {
    case Kind::miss:
      if (phase_ == Phase::leaving) return go_native(guest_at(regs, stop.pc));
      return on_miss(regs, stop.pc);
    case Kind::branch_miss: return on_indirect_miss(regs, stop.pc);
    case Kind::system_call:
    case Kind::unreadable_mask:
      return on_system_call(regs, stop.pc);
    case Kind::stale: return on_stale(regs, stop);
    // The replica's own memory, and nobody looks at that.
    case Kind::stored_pointer:
    case Kind::call_over:
    case Kind::turn_over: return resume();
    case Kind::sets_trap_flag: return end(Outcome::unsupported, "it sets the trap flag");
    case Kind::native_insn:
    case Kind::unsupported: {
      const char* reason = space_.cache().fragment(stop.at.fragment).unsupported_reason;
      return end(Outcome::unsupported, reason ? reason : "an instruction for the kernel alone");
    }
    case Kind::full_buffer: return on_full_buffer(regs);
    case Kind::step: return step_out(regs);
    case Kind::sent: return resume();  // it is not the replica's
    case Kind::log_full:
    case Kind::unaligned:
    case Kind::unreadable_code:
    case Kind::read_ahead:
    case Kind::fault:
    case Kind::watchpoint: return on_fault(regs, info);
  }
}

void Executor::on_full_buffer(const Registers& regs) {
  counts_.drains++;
  if (wanted_end_) {
    cursor_ = regs.r15;
    return end(*wanted_end_);
  }
  switch_thread(regs, true);
}

void Executor::on_stale(Registers& regs, const cache::Stop& stop) {
  space_.cache().drop(stop.at.fragment);
  const auto again = fragment_for(stop.pc);
  if (!again) return end(Outcome::fault, "code is gone");
  regs.rip = space_.cache().body_address(*again);
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

// An instruction that the replica has executed, in the cache or natively, has failed.
void Executor::on_fault(Registers& regs, const siginfo_t& info) {
  const GuestAddr address(reinterpret_cast<uint64_t>(info.si_addr));
  if (info.si_signo == SIGSEGV && shared_.contains(address)) return make_private(regs, address);
  // The record of the run that it was in has not been written.
  if (phase_ != Phase::native) cursor_ = regs.r15;
  end(Outcome::fault, fmt::format("signal {} at {:#x}, executing {:#x}", info.si_signo,
                                  address.value, regs.rip));
}

void Executor::make_private(Registers& regs, GuestAddr address) {
  const Urgent urgent(tid(), replica_.at_idle_priority);
  ptrace::RemoteSyscalls remote(replica_.tracee, call_site(), kReplica,
                                ptrace::StopSignal::drop);
  const Status copied = shared_.make_private(remote, calls_.memory(), {address, address + 1});
  const auto stop = remote.finish();
  counts_.private_pages++;
  if (!copied || !stop) {
    if (phase_ != Phase::native) cursor_ = regs.r15;
    return end(Outcome::device_memory, copied ? "" : copied.error().message);
  }
  resume();
}

void Executor::on_miss(Registers& regs, GuestAddr target) {
  counts_.misses++;
  const auto id = fragment_for(target);
  if (!id) return end(Outcome::fault, "a jump to where no code is");
  regs.rip = space_.cache().body_address(*id);
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

void Executor::on_indirect_miss(Registers& regs, GuestAddr target) {
  counts_.misses++;
  const auto id = fragment_for(target);
  if (!id) return end(Outcome::fault, "a jump to where no code is");
  const auto entry = space_.cache().add_entry(*id, {});
  if (!entry) return end(Outcome::no_room, "the code cache is full");
  regs.rip = *entry;
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

std::optional<FragmentId> Executor::fragment_for(GuestAddr pc) {
  emu::TranslationCost cost;
  const auto id = space_.finder(budget_.plan, cost).find(pc, std::nullopt);
  counts_.fragments += cost.fragments;
  counts_.translation_s += cost.seconds;
  return id;
}

void Executor::on_system_call(const Registers& regs, GuestAddr pc) {
  counts_.system_calls++;
  answer_call(guest_at(regs, pc));
}

void Executor::answer_call(Registers guest) {
  const Urgent urgent(tid(), replica_.at_idle_priority);
  SyscallAnswer answer;
  const double before = budget_.seconds > 0 ? processor_now().used : 0;
  {
    ptrace::RemoteSyscalls remote(replica_.tracee, call_site(), kReplica,
                                  ptrace::StopSignal::drop);
    answer = calls_.answer(current(), guest, remote);
    if (!remote.finish()) return;  // it is dead: the report will come
  }
  if (budget_.seconds > 0) answering_ += std::max(0.0, processor_now().used - before - kCall_s);
  if (answer.kind == SyscallAnswer::Kind::not_yet) {
    awaiting_ = guest;
    return awaited_.no_answer(*replica_.log);
  }
  awaited_.over();
  carry_out(guest, std::move(answer));
}

// When the program has made calls meanwhile.
void Executor::ask_again() {
  if (wanted_end_) return end(*wanted_end_);
  switch (awaited_.next(*replica_.log)) {
    case AwaitedCall::Next::wait:
      return;
    case AwaitedCall::Next::ask:
      return answer_call(awaiting_);
    case AwaitedCall::Next::give_up:
      return end({Outcome::input, "the program waits, too", static_cast<long>(awaiting_.rax)});
  }
}

void Executor::carry_out(Registers& guest, SyscallAnswer answer) {
  using Kind = SyscallAnswer::Kind;
  if (answer.kind == Kind::ends) return end(std::move(answer.ending));
  if (answer.kind == Kind::finished) return finish_thread();
  if (answer.kind == Kind::returns) return return_from_signal(guest);
  if (answer.kind == Kind::new_thread && !new_thread(guest)) return;
  if (answer.kind != Kind::new_thread) guest.rax = static_cast<uint64_t>(answer.value);
  if (answer.fs_base) guest.fs_base = *answer.fs_base;
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
