// SPDX-License-Identifier: MIT
//
// Bursts in the interpreter: the running threads are stopped, and what each would do next is
// interpreted here, on a private copy-on-write view of the program's memory. The result is
// discarded and the threads go on where they were: nothing is put into the program, and a burst can
// have no effect on it but time.
//
// Threads take turns of a few ten thousand instructions. A thread's part ends at its first system
// call, whose result nobody knows, or when it has had as many instructions as it may; then it goes
// on natively at once. Who called it is found when it runs again, from a copy of its stack.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>

#include "sample/burst_engine.h"
#include "shadow/emulator_space.h"
#include "shadow/stack_copy.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

class BurstEmulator : public BurstEngine {
 public:
  // `stacks`: traces begin with call stacks.
  BurstEmulator(trace::BlockTable& table, trace::TraceSink& sink, emu::CapturePlan plan,
                bool stacks)
      : space_(table), sink_(sink), plan_(plan), stacks_(stacks) {}

  void look_at(shadow::Program& program) override;
  Status begin(shadow::Pause& paused) override;
  bool owns(Tid tid) const override;
  bool serve(Tid tid, const ptrace::WaitStatus& status) override;
  bool work() override;
  bool halts_program() const override { return true; }
  bool is_in_our_process() const override { return true; }
  bool is_over() const override { return interpreted_.empty(); }
  const char* reason() const override { return reason_; }
  void end() override;
  uint64_t conclude() override;
  void forget_program() override;
  BurstTotals totals() const override;

  void number_next(uint64_t number) override { burst_ = number - 1; }
  const trace::CodeShares* shares() const override { return &shares_; }
  collect::SampleSeries::Drawn drawn() const override { return drawn_; }
  // Numbers of the pages that the last burst has written to, once it is concluded.
  const std::vector<uint64_t>& written_pages() const { return written_; }
  // No thread has more than about so many instructions in a burst.
  void limit(uint64_t instructions) { most_ = instructions; }

 private:
  struct Thread {
    ptrace::Tracee tracee;
    ptrace::Registers registers;  // of the interpreted future; its own stay as they are
    ptrace::ExtendedState extended{};
    ptrace::Registers first{};  // those that it was stopped with
    std::unique_ptr<shadow::StackCopy> stack{};
    std::vector<trace::Word> words{};
    uint64_t most = 0;  // instructions
    uint64_t instructions = 0;
  };

  Status learn(Tid thread);
  void copy_stack(Thread& t);
  void retire(Thread& t);
  void submit(Thread& t);

  shadow::EmulatorSpace space_;
  trace::TraceSink& sink_;
  emu::CapturePlan plan_;
  bool stacks_;
  std::unique_ptr<machine::MemorySource> source_;  // of one burst
  machine::MemoryView view_;
  std::vector<uint64_t> written_;
  using Clock = std::chrono::steady_clock;
  std::optional<uint64_t> mapped_;  // pages that the process had mapped when its maps were read
  Clock::time_point learned_at_;
  bool handles_faults_ = false;     // itself
  std::deque<Thread> interpreted_;  // the next one first
  std::vector<Thread> done_;        // native again; their records are still to be handed over
  uint64_t instructions_ = 0;       // of this burst
  trace::CodeShares shares_{};
  collect::SampleSeries::Drawn drawn_{};
  const char* reason_ = "";         // what the last thread stopped at
  uint64_t burst_ = 0;              // its number
  uint64_t most_ = UINT64_MAX;      // instructions of a thread
  std::map<std::string, uint64_t> stops_;
};

}  // namespace shadowprof::sample
