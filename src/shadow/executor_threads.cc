// SPDX-License-Identifier: MIT
//
// The guest threads of a replica taking turns in its one kernel thread.
#include <linux/futex.h>
#include <sys/syscall.h>

#include <cstring>

#include "shadow/executor.h"
#include "shadow/signal_return.h"
#include "shadow/thread_request.h"
#include "shadow/turns.h"

namespace shadowprof::shadow {

// Guest context: into the cache, and on.
void Executor::enter(const Registers& guest) {
  // Threads take turns, and the kernel sets no such base.
  if (guest.fs_base >= machine::kFirstRefusedBase && threads_.size() > 1)
    return end(Outcome::unsupported, "its fs base is beyond its half of the address space");
  if (phase_ != Phase::recorded) return go_native(guest);
  Registers regs = guest;
  if (regs.gs_base != 0) return end(Outcome::unsupported, "it uses the gs segment");
  if (!regs.is_64_bit()) return end(Outcome::unsupported, "it runs 32-bit code");
  if (regs.eflags & machine::flags::kTrap)
    return end(Outcome::unsupported, "it sets the trap flag");
  const auto id = fragment_for(GuestAddr(regs.rip));
  if (!id) return end(Outcome::fault, "there is no code where it is");
  if (!current().traced) begin_trace(regs);
  slot_->state().guest_r15 = regs.r15;
  regs.r15 = cursor_;
  regs.gs_base = slot_->guest;
  regs.rip = space_.cache().body_address(*id);
  if (paced_stretch_ && slot_->state().pace_to == 0) {
    slot_->state().pace_next = std::exchange(regs.rip, space_.cache().pace_check_address());
  }
  regs.orig_rax = machine::kNoSyscall;
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

// The thread's records so far go to the collectors, under its own name; then another's turn, but
// not in the middle of what the engine does if there will be other samples: it could not leave the
// cache there. `regs` are the engine's or the guest's.
void Executor::switch_thread(const Registers& regs, bool in_engine) {
  if (!is_between_samples() && !take_buffer(in_engine ? regs.r15 : cursor_)) {
    blocked_on_buffer_ = true;
    blocked_registers_ = regs;
    current().in_engine = in_engine;
    return;
  }
  if (ending_) return;
  GuestThread& before = current();
  before.registers = regs;
  before.in_engine = in_engine;
  std::memcpy(before.parked, &slot_->state(), sizeof before.parked);
  if (in_engine && may_go_native_) return load(before);
  if (!run_other_thread()) end(Outcome::waits, "all its threads wait");
}

// A buffer may be free again, or the log longer.
void Executor::on_idle() {
  if (ending_) return;
  space_.serve(tid());
  if (is_stopped()) return look_at_rest();
  look_at_clock();
  placement_.look();
  if (awaited_.waits()) return ask_again();
  if (!blocked_on_buffer_) return;
  if (!sink_.done(tickets_[(buffer_ + 1) % emu::kBufferCount])) return;
  blocked_on_buffer_ = false;
  const Registers regs = blocked_registers_;
  if (wanted_end_) {
    cursor_ = current().in_engine ? regs.r15 : cursor_;
    return end(*wanted_end_);
  }
  switch_thread(regs, current().in_engine);
}

// The next one that can run, perhaps the same. False: there is none.
bool Executor::run_other_thread() {
  const std::optional<size_t> next = next_to_run(threads_, current_);
  if (!next) return false;
  if (pass_to(*next)) load(current());
  return true;
}

// The turn, with the vector registers. False: the replica is dead.
bool Executor::pass_to(size_t thread) {
  if (thread == current_) return true;
  if (current().state != GuestThread::State::finished &&
      !replica_.tracee.get_extended_state_if_alive(current().extended)) {
    return false;
  }
  current_ = thread;
  const auto& extended = current().extended;
  return extended.empty() || replica_.tracee.set_extended_state_if_alive(extended);
}

void Executor::load(GuestThread& thread) {
  if (!thread.in_engine) return enter(thread.registers);
  std::memcpy(&slot_->state(), thread.parked, sizeof thread.parked);
  Registers regs = thread.registers;
  regs.r15 = cursor_;
  std::memcpy(slot_->host + (cursor_ - slot_->guest), thread.unfinished.data(),
              thread.unfinished.size());
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

// clone(2) of a thread. `guest`: at the system call; its rax becomes the answer. False: the sample
// has ended.
bool Executor::new_thread(Registers& guest) {
  current().registers = guest;
  if (!replica_.tracee.get_extended_state_if_alive(current().extended)) return false;
  auto thread = make_thread(current(), calls_.memory(), threads_.size());
  if (!thread) {
    end({Outcome::system_call, "starts a process", static_cast<long>(guest.rax)});
    return false;
  }
  guest.rax = static_cast<uint64_t>(int64_t{(*thread)->tid.value});
  threads_.push_back(std::move(*thread));
  return true;
}

// The handler that the program was in when it was forked is over. `guest`: at the system call.
void Executor::return_from_signal(const Registers& guest) {
  constexpr auto kWords = trace::gap(trace::GapReason::signal_returned);
  GuestThread& thread = current();
  if (!replica_.tracee.get_extended_state_if_alive(thread.extended)) return;
  const auto back = read_signal_frame(calls_.memory(), guest, thread.extended);
  const bool recorded = phase_ != Phase::native;
  if (!back || (recorded && !make_room(sizeof kWords))) {
    return end({Outcome::system_call, "its frame is not understood", SYS_rt_sigreturn});
  }
  if (ending_ || !replica_.tracee.set_extended_state_if_alive(back->extended)) return;
  thread.signal_mask = back->signal_mask;
  if (recorded) append(kWords);
  enter(back->registers);
}

void Executor::finish_thread() {
  if (phase_ == Phase::native && threads_.size() == 1) return end({Outcome::exits, {}, SYS_exit});
  GuestThread& thread = current();
  if (thread.clear_child_tid.value != 0) {
    (void)calls_.memory().write_value(thread.clear_child_tid, int32_t{0});
    (void)calls_.futexes().wake(thread.clear_child_tid, 1, FUTEX_BITSET_MATCH_ANY);
  }
  switch_thread(thread.registers, false);
}

}  // namespace shadowprof::shadow
