// SPDX-License-Identifier: MIT
//
// Bursts by hardware single steps, for programs and hosts where nothing may be put into the
// program's memory: threads are stepped in turn, at their own addresses, and each block that one
// has executed becomes a record like those that translated code writes.
//
//   begin_burst -> admit each thread that runs -> step ... step -> end_burst -> conclude_burst
//
// A step takes microseconds, in a virtual machine some tens, so a burst is a few hundred
// instructions at best. What a step cannot do unseen ends a thread's part in the burst: system
// calls, instructions that trap. Signals that are sent meanwhile wait until the thread is native
// again. Nothing of values or load times is recorded.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/guest_code.h"
#include "decoder/insn.h"
#include "ptrace/tracee.h"
#include "trace/block_table.h"
#include "trace/record.h"
#include "trace/trace_sink.h"

namespace shadowprof::inject {

class Stepper {
 public:
  Stepper(trace::BlockTable& table, trace::TraceSink& sink) : table_(table), sink_(sink) {}

  // The threads that are to take part are stopped; its memory is looked at through `thread`, one of
  // them. An Error: none can.
  Status begin_burst(Tid process, Tid thread);
  // `thread` stands at an interrupt's stop. False: it cannot be stepped, and is as it was.
  bool admit(ptrace::Tracee thread, const ptrace::Registers& registers);
  bool owns(Tid tid) const;
  // A thread has ended.
  void forget(Tid tid);
  // One instruction of the next thread. False: nobody takes part any more.
  bool step();
  bool is_over() const { return stepping_.empty(); }
  // All threads go on natively.
  void end_burst();
  // Hands over what was recorded; the number of instructions.
  uint64_t conclude_burst();
  void forget_program();
  uint64_t steps() const { return steps_; }

 private:
  struct Thread {
    ptrace::Tracee tracee;
    ptrace::Registers registers;
    ptrace::SignalMask mask = 0;
    std::vector<siginfo_t> deferred{};
    std::vector<decoder::Insn> block{};  // executed, and not yet recorded
    std::vector<trace::Word> words{};
  };

  bool step(Thread& t);
  bool may_step(const decoder::Insn& insn, GuestAddr at);
  decoder::Insn insn_at(GuestAddr pc);
  void close_block(Thread& t, trace::RunExit exit, GuestAddr next);
  BlockId block_id(const std::vector<decoder::Insn>& insns);
  RunId run_id(BlockId block, trace::RunExit exit, GuestAddr target);
  void let_go(Thread& t);
  void retire(Thread& t);
  void forget_code();

  trace::BlockTable& table_;
  trace::TraceSink& sink_;
  Tid process_;
  std::unique_ptr<cache::GuestCode> code_;
  ptrace::SignalMask caught_ = 0;  // by the program, when the burst began
  std::deque<Thread> stepping_;    // the next one first
  std::vector<Thread> done_;       // native again; their records are still to be handed over
  std::unordered_map<GuestAddr, decoder::Insn> insns_;
  std::map<std::pair<GuestAddr, GuestAddr>, BlockId> blocks_;
  std::map<std::pair<BlockId, std::pair<trace::RunExit, GuestAddr>>, RunId> runs_;
  uint64_t steps_ = 0;
  uint64_t steps_before_ = 0;
  uint64_t traces_ = 0;
};

}  // namespace shadowprof::inject
