// SPDX-License-Identifier: MIT
#include "inject/stepper.h"

#include <algorithm>
#include <utility>

#include "emu/guest_blocks.h"
#include "inject/pushed_flags.h"
#include "kernel/proc.h"
#include "ptrace/deliver.h"
#include "ptrace/wait.h"

namespace shadowprof::inject {

using decoder::Insn;
using decoder::InsnKind;
using ptrace::WaitStatus;
using trace::RunExit;
using trace::Terminator;

namespace {

// What a system call or the like would end is never stepped: blocks end at branches alone.
Terminator branch_of(InsnKind kind) {
  const Terminator terminator = emu::terminator_of(kind);
  const bool branches = terminator != Terminator::syscall && terminator != Terminator::native &&
                        kind != InsnKind::transaction;
  return branches ? terminator : Terminator::none;
}

RunExit exit_of(const Insn& insn, GuestAddr next) {
  switch (branch_of(insn.kind)) {
    case Terminator::conditional:
      return next == insn.next() ? RunExit::not_taken : RunExit::taken;
    case Terminator::jump:
      return RunExit::jump;
    case Terminator::call:
      return RunExit::call;
    case Terminator::indirect_jump:
      return RunExit::indirect_jump;
    case Terminator::indirect_call:
      return RunExit::indirect_call;
    case Terminator::ret:
      return RunExit::ret;
    default:
      return RunExit::split;
  }
}

}  // namespace

Status Stepper::begin_burst(Tid process, Tid thread) {
  const auto status = kernel::read_status(process);
  if (!status) return tl::unexpected(status.error());
  if (status->ignored & ptrace::mask_of(SIGTRAP)) {
    return fail("the program ignores SIGTRAP, so it cannot be stepped unnoticed");
  }
  caught_ = status->caught;
  process_ = process;
  const auto mappings = kernel::read_maps(thread);
  if (!mappings) return tl::unexpected(mappings.error());
  if (!code_) {
    code_ = std::make_unique<cache::GuestCode>(process, table_);
    code_->distrust_generated_code();
  }
  if (!code_->rebind(thread, *mappings).empty()) forget_code();
  return {};
}

bool Stepper::admit(ptrace::Tracee thread, const ptrace::Registers& registers) {
  // What is to happen to an interrupted system call is decided when the thread goes on natively.
  if (registers.in_syscall()) return false;
  Thread t{thread, registers};
  ptrace::SignalMask pending = 0;
  if (!thread.get_signal_mask_if_alive(t.mask) || !thread.get_pending_signals_if_alive(pending)) {
    return false;
  }
  // A step's own SIGTRAP resets the handler if the thread blocks it.
  const bool loses_handler = (caught_ & t.mask & ptrace::mask_of(SIGTRAP)) != 0;
  if (loses_handler || (pending & ptrace::kInstructionSignals)) return false;
  if (!thread.set_signal_mask_if_alive(~ptrace::kInstructionSignals)) return false;
  stepping_.push_back(std::move(t));
  return true;
}

bool Stepper::owns(Tid tid) const {
  return std::any_of(stepping_.begin(), stepping_.end(),
                     [&](const Thread& t) { return t.tracee.tid() == tid; });
}

void Stepper::forget(Tid tid) {
  std::erase_if(stepping_, [&](const Thread& t) { return t.tracee.tid() == tid; });
}

bool Stepper::step() {
  if (stepping_.empty()) return false;
  Thread t = std::move(stepping_.front());
  stepping_.pop_front();
  if (step(t)) {
    stepping_.push_back(std::move(t));
  } else {
    retire(t);
  }
  return true;
}

Insn Stepper::insn_at(GuestAddr pc) {
  if (const auto known = insns_.find(pc); known != insns_.end()) return known->second;
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes{};
  const size_t size = code_->fetch(pc, bytes);
  const Insn insn = decoder::decode(std::span(bytes).first(size), pc);
  if (!code_->region(pc).may_change) insns_[pc] = insn;
  return insn;
}

bool Stepper::may_step(const Insn& insn, GuestAddr at) {
  if (insn.length == 0 || code_->region(at).range.size() == 0) return false;
  return insn.kind != InsnKind::syscall && insn.kind != InsnKind::native &&
         insn.kind != InsnKind::unsupported && insn.kind != InsnKind::transaction;
}

// One instruction. False: the thread's part is over.
bool Stepper::step(Thread& t) {
  // Then the trap behind each instruction is the program's.
  if (t.registers.eflags & machine::flags::kTrap) return false;
  const Insn insn = insn_at(t.registers.pc());
  if (!may_step(insn, t.registers.pc()) || !t.tracee.step_if_alive()) return false;
  const auto stop = ptrace::wait_for_stop(t.tracee.tid());
  if (!stop || !t.tracee.get_registers_if_alive(t.registers)) return false;
  siginfo_t info;
  if (!stop->is_signal_stop(SIGTRAP)) {
    // A fault of the instruction, or a SIGSTOP: the thread meets it natively.
    if (stop->kind() == WaitStatus::Kind::signal_stop && t.tracee.get_siginfo_if_alive(info)) {
      t.deferred.push_back(info);
    }
    // A group stop that is run through is reported again this way.
    if (stop->is_trap()) (void)t.tracee.interrupt_if_alive();
    return false;
  }
  steps_++;
  if (pushes_flags(std::span(insn.bytes).first(insn.length)))
    hide_pushed_trap_flag(code_->memory(), t.registers.sp());
  // A repeated string instruction steps once for each repetition, and counts once.
  const bool repeats = t.registers.pc() == insn.address && !insn.is_terminator();
  if (!repeats) t.block.push_back(insn);
  const bool full = t.block.size() == limits::kMaxBlockInsns;
  if (insn.is_terminator() || full) {
    close_block(t, exit_of(t.block.back(), t.registers.pc()), t.registers.pc());
  }
  return true;
}

void Stepper::close_block(Thread& t, RunExit exit, GuestAddr next) {
  if (t.block.empty()) return;
  const BlockId block = block_id(t.block);
  t.words.push_back(run_id(block, exit, trace::is_indirect(exit) ? GuestAddr() : next).value);
  t.block.clear();
}

BlockId Stepper::block_id(const std::vector<Insn>& insns) {
  const Insn& last = insns.back();
  const auto [it, is_new] = blocks_.try_emplace({insns.front().address, last.next()});
  if (!is_new) return it->second;
  trace::Block block;
  block.start = insns.front().address;
  block.end = last.next();
  block.last_insn = last.address;
  block.target = last.branch_target;
  block.module = code_->region(block.start).module;
  block.insns = static_cast<uint16_t>(insns.size());
  block.terminator = branch_of(last.kind);
  std::vector<uint8_t> bytes;
  for (const Insn& insn : insns) {
    bytes.insert(bytes.end(), insn.bytes.begin(), insn.bytes.begin() + insn.length);
  }
  it->second = table_.add_block(block, bytes);
  return it->second;
}

RunId Stepper::run_id(BlockId block, RunExit exit, GuestAddr target) {
  const auto [it, is_new] = runs_.try_emplace({block, {exit, target}});
  if (!is_new) return it->second;
  trace::Run run;
  run.insns = table_.block(block).insns;
  run.last_block_insns = table_.block(block).insns;
  run.exit = exit;
  run.target = target;
  it->second = table_.add_run(run, {&block, 1}, {});
  return it->second;
}

void Stepper::let_go(Thread& t) {
  (void)t.tracee.set_signal_mask_if_alive(t.mask);
  const auto last = ptrace::give_back(t.tracee, 0, std::exchange(t.deferred, {}));
  if (last) (void)t.tracee.cont_if_alive(*last);
}

void Stepper::retire(Thread& t) {
  close_block(t, RunExit::split, t.registers.pc());
  let_go(t);
  done_.push_back(std::move(t));
}

void Stepper::end_burst() {
  for (Thread& t : stepping_) retire(t);
  stepping_.clear();
}

uint64_t Stepper::conclude_burst() {
  for (Thread& t : done_) {
    trace::submit_burst(sink_, t.tracee.tid(), trace::sample_start(++traces_), t.words);
  }
  done_.clear();
  return steps_ - std::exchange(steps_before_, steps_);
}

void Stepper::forget_code() {
  insns_.clear();
  blocks_.clear();
  runs_.clear();
}

void Stepper::forget_program() {
  stepping_.clear();
  code_.reset();
  forget_code();
}

}  // namespace shadowprof::inject
