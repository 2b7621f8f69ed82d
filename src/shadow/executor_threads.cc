// SPDX-License-Identifier: MIT
//
// The guest threads of a replica taking turns in its one kernel thread.
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "shadow/executor.h"

namespace shadowprof::shadow {
namespace {

constexpr size_t kMostThreads = 4096;

// What both clone system calls say, in one form.
struct ThreadRequest {
  uint64_t flags = 0;
  uint64_t stack_top = 0;
  uint64_t parent_tid = 0;
  uint64_t child_tid = 0;
  uint64_t tls = 0;
};

std::optional<ThreadRequest> read_request(const ptrace::Registers& guest,
                                          ptrace::RemoteMemory& memory) {
  if (guest.rax == SYS_clone) {
    return ThreadRequest{guest.rdi, guest.rsi, guest.rdx, guest.r10, guest.r8};
  }
  const auto args = memory.read_value<clone_args>(GuestAddr(guest.rdi));
  if (!args) return std::nullopt;
  return ThreadRequest{args->flags, args->stack + args->stack_size, args->parent_tid,
                       args->child_tid, args->tls};
}

}  // namespace

// Guest context: into the cache, and on.
void Executor::enter(const Registers& guest) {
  Registers regs = guest;
  if (regs.gs_base != 0) return end(Outcome::unsupported, "it uses the gs segment");
  if (!regs.is_64_bit()) return end(Outcome::unsupported, "it runs 32-bit code");
  const auto id = fragment_for(GuestAddr(regs.rip));
  if (!id) return end(Outcome::fault, "there is no code where it is");
  if (!current().traced) begin_trace();
  slot_->state().guest_r15 = regs.r15;
  regs.r15 = cursor_;
  regs.gs_base = slot_->guest;
  regs.rip = space_.cache().body_address(*id);
  regs.orig_rax = machine::kNoSyscall;
  if (replica_.tracee.set_registers_if_alive(regs)) resume();
}

// The thread's records so far go to the collectors, under its own name; then another's turn.
// `regs` are the engine's or the guest's.
void Executor::switch_thread(const Registers& regs, bool in_engine) {
  if (!take_buffer(in_engine ? regs.r15 : cursor_)) {
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
  if (!run_other_thread()) end(Outcome::waits, "all its threads wait");
}

// A buffer is free again.
void Executor::on_idle() {
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
  const size_t before = current_;
  GuestThread& last = *threads_[before];
  const auto runnable = [&](size_t i) {
    return threads_[i]->state == GuestThread::State::runnable;
  };
  size_t next = before;
  for (size_t i = 1; i <= threads_.size(); i++) {
    next = (before + i) % threads_.size();
    if (runnable(next)) break;
  }
  if (!runnable(next)) {
    // Nobody else will move before a timeout does.
    next = before;
    while (next < threads_.size() &&
           !(threads_[next]->state == GuestThread::State::waiting && threads_[next]->has_timeout)) {
      next++;
    }
    if (next == threads_.size()) return false;
    threads_[next]->state = GuestThread::State::runnable;
    threads_[next]->registers.rax = static_cast<uint64_t>(-ETIMEDOUT);
  }
  if (next != before) {
    if (last.state != GuestThread::State::finished &&
        !replica_.tracee.get_extended_state_if_alive(last.extended)) {
      return true;
    }
    const auto& extended = threads_[next]->extended;
    if (!extended.empty() && !replica_.tracee.set_extended_state_if_alive(extended)) return true;
    current_ = next;
  }
  load(*threads_[next]);
  return true;
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

// clone(2) of a thread: a guest thread more. `guest`: at the system call; its rax becomes the
// answer. False: the sample has ended.
bool Executor::new_thread(Registers& guest) {
  const auto request = read_request(guest, calls_.memory());
  constexpr uint64_t kOfThread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
  if (!request || (request->flags & kOfThread) != kOfThread || (request->flags & CLONE_VFORK) ||
      threads_.size() >= kMostThreads) {
    end({Outcome::system_call, "starts a process", static_cast<long>(guest.rax)});
    return false;
  }
  auto thread = std::make_unique<GuestThread>();
  // Out of the kernel's range: no real thread has it.
  thread->tid = Tid(static_cast<int32_t>((1 << 22) + threads_.size()));
  thread->registers = guest;
  thread->registers.rax = 0;
  thread->registers.rip += machine::kSyscallInsnBytes;
  thread->registers.rcx = thread->registers.rip;
  if (request->stack_top != 0) thread->registers.rsp = request->stack_top;
  if (request->flags & CLONE_SETTLS) thread->registers.fs_base = request->tls;
  if (!replica_.tracee.get_extended_state_if_alive(thread->extended)) return false;
  const int32_t id = thread->tid.value;
  if (request->flags & CLONE_PARENT_SETTID) {
    (void)calls_.memory().write_value(GuestAddr(request->parent_tid), id);
  }
  if (request->flags & CLONE_CHILD_SETTID) {
    (void)calls_.memory().write_value(GuestAddr(request->child_tid), id);
  }
  if (request->flags & CLONE_CHILD_CLEARTID)
    thread->clear_child_tid = GuestAddr(request->child_tid);
  thread->signal_mask = current().signal_mask;
  guest.rax = static_cast<uint64_t>(id);
  threads_.push_back(std::move(thread));
  return true;
}

void Executor::finish_thread() {
  GuestThread& thread = current();
  if (thread.clear_child_tid.value != 0) {
    (void)calls_.memory().write_value(thread.clear_child_tid, int32_t{0});
    (void)calls_.futexes().wake(thread.clear_child_tid, 1, FUTEX_BITSET_MATCH_ANY);
  }
  switch_thread(thread.registers, false);
}

}  // namespace shadowprof::shadow
