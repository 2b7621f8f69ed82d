// SPDX-License-Identifier: MIT
//
// Runs one replica in the code cache until its budget is used up or something ends it, and hands
// its trace to the collectors. Then the replica is killed: nothing of it is wanted but the trace.
//
//   start()        arenas mapped, shared pages protected, first thread enters the cache
//   on_stop()      miss, full buffer, system call, fault: one stop at a time
//   on_idle()      what could not go on at a stop, because a buffer was still being read
//   proceed()      the replica was idle, between two samples
//   request_end()  the replica is stopped and ends
//
// A fork can be dear, and says one moment of the program. So a replica may go on when its sample is
// over (Budget::goes_on): natively, at its own addresses, and into the cache again for the next
// one. Natively it makes no system call either: the kernel stops it at each for us to answer
// (syscall user dispatch), and kills it there when we are not there any more.
//
// The guest's threads take turns: when one waits, and when it yields. One that gives several
// samples records one thread in each, which has executed natively before it, and then the next;
// one that gives a single sample records them all, in turns of a full buffer.
#pragma once

#include <memory>
#include <optional>

#include "cache/stop.h"
#include "shadow/branch_counter.h"
#include "shadow/execution.h"
#include "shadow/placement.h"
#include "shadow/replica.h"
#include "shadow/shadow_space.h"
#include "shadow/system_calls.h"
#include "trace/block_table.h"
#include "trace/trace_sink.h"

namespace shadowprof::shadow {

class Executor : public Execution {
 public:
  Executor(const trace::BlockTable& table, ShadowSpace& space, trace::TraceSink& sink,
           Replica replica, Identity identity, Budget budget);
  ~Executor() override;

  Status start() override;
  void on_stop(const ptrace::WaitStatus& status) override;
  void on_idle() override;
  void request_end(Outcome outcome) override;
  void become_idle() override;
  void proceed(const NextSample& next) override;

  Tid tid() const override { return replica_.tracee.tid(); }
  bool is_our_child() const override { return replica_.is_our_child; }
  const std::optional<Ending>& ending() const override { return ending_; }
  bool is_done() const override { return dead_ && tickets_done(); }
  double next_idle() const override;
  double guest_seconds() const override { return guest_seconds_; }
  const ExecutorCounts& counts() const override { return counts_; }
  const ProcessorTime& processor() const override { return processor_; }
  ProcessorTime processor_now() const override { return processor_time_of(tid()); }
  bool in_our_process() const override { return false; }
  bool is_idle() const override { return phase_ == Phase::idle && !ending_ && !wanted_end_; }
  bool rests() const override { return phase_ == Phase::resting && !ending_; }
  bool is_native() const override { return phase_ == Phase::native && !ending_; }
  void leave_idle_priority() override;

 private:
  using Registers = ptrace::Registers;

  enum class Phase : uint8_t {
    recorded,  // in the cache
    leaving,   // stepped to a place where the guest's registers are exact
    idle,      // stopped there, until it is told what follows
    resting,
    native,
  };

  // executor.cc
  void on_signal_stop(const cache::Stop& stop, Registers& regs, const siginfo_t& info);
  void on_full_buffer(const Registers& regs);
  void on_fault(Registers& regs, const siginfo_t& info);
  void on_miss(Registers& regs, GuestAddr target);
  void on_indirect_miss(Registers& regs, GuestAddr target);
  void on_stale(Registers& regs, const cache::Stop& stop);
  void on_system_call(const Registers& regs, GuestAddr pc);
  void answer_call(Registers guest);
  void ask_again();
  void carry_out(Registers& guest, SyscallAnswer answer);
  void return_from_signal(const Registers& guest);
  void make_private(Registers& regs, GuestAddr address);
  std::optional<FragmentId> fragment_for(GuestAddr pc);
  void take_syscall_counts();
  bool has_raised_signal();
  void look_at_clock();
  void resume();
  bool has_run_for(double seconds);
  double guest_time() const;
  double program_time(double seconds);
  EngineClock::Work work() const {
    return {counts_.stops(), drained_, counts_.system_calls, answering_};
  }
  void end(Outcome outcome, std::string detail = {});
  void end(Ending ending);

  // executor_threads.cc
  GuestThread& current() { return *threads_[current_]; }
  void enter(const Registers& guest);
  bool new_thread(Registers& guest);
  void finish_thread();
  void switch_thread(const Registers& regs, bool in_engine);
  bool run_other_thread();
  bool pass_to(size_t thread);
  void load(GuestThread& thread);

  // executor_native.cc
  Status permit_native(ptrace::RemoteSyscalls& remote) const;
  // Where calls are made for the replica.
  GuestAddr call_site() const {
    return may_go_native_ ? GuestAddr(space_.cache().syscall_address()) : space_.syscall_insn();
  }
  bool is_stopped() const { return phase_ == Phase::idle || phase_ == Phase::resting; }
  bool is_between_samples() const { return phase_ == Phase::native || is_stopped(); }
  bool leave();
  void step_out(const Registers& regs);
  void go_native(Registers guest);
  bool goes_on_with_sample(double clock_s);
  void stop_between(const Registers& guest);
  bool count_branches(double native_s);
  void choose_looks();
  void take_look();
  bool take_passes(double native_s);
  void look_at_rest();
  void on_native_stop(const ptrace::WaitStatus& status, Registers& regs);
  void look_at_native_clock();
  void begin_next_sample(const Registers& guest);
  void judge_stretch();
  Registers guest_at(Registers regs, GuestAddr pc) const;

  // executor_trace.cc
  bool tickets_done() const;
  bool take_buffer(uint64_t cursor);
  void note_records(std::span<const trace::Word> words);
  void drain(uint64_t cursor);
  void choose_start();
  void begin_trace(const Registers& guest);
  void append(std::span<const trace::Word> words);
  bool make_room(size_t bytes);
  void finish_trace(uint64_t cursor, std::span<const trace::Word> last_words);
  Tid stream(size_t thread) const;
  trace::Chunk chunk(size_t thread, std::span<const trace::Word> words) const;

  const trace::BlockTable& table_;
  ShadowSpace& space_;
  trace::TraceSink& sink_;
  Replica replica_;
  Budget budget_;
  SharedPages shared_;
  GuestThreads threads_;
  SystemCalls calls_;
  ExecutorCounts counts_;

  cache::Slot* slot_ = nullptr;
  size_t current_ = 0;
  size_t buffer_ = 0;
  uint64_t start_ = 0;   // where in the buffer the present chunk begins
  uint64_t cursor_ = 0;  // while the replica is in guest context
  uint64_t tickets_[emu::kBufferCount] = {};
  double bytes_per_instruction_ = 1;
  uint64_t drained_ = 0;  // bytes
  double answering_ = 0;  // seconds of the replica's, for system calls that we answer
  // The replica's clock is slower than the wall's: who waits for what is left of a sample, and
  // again for what is left then, would look all the time, and take the processor that the replica
  // needs.
  static constexpr double kLeastWait_s = 0.0002;
  // A share of the time that it took up to now: where code is new the replica is a hundred times as
  // slow.
  static constexpr double kWaitShare = 0.03;
  // One that has not run at all since the last look waits for a core: the time to the next look
  // doubles, up to so long.
  static constexpr double kLongestWait_s = 0.005;
  double wait_s_ = kLeastWait_s;
  double used_at_look_ = 0;
  EngineClock clock_;
  Deadline deadline_;
  Placement placement_;
  double guest_seconds_ = 0;
  double sample_seconds_ = 0;  // of the sample that the replica is leaving
  trace::RecordSums sums_;  // of the present sample's records, as far as they were looked at
  uint64_t sample_words_ = 0;
  uint64_t drained_before_ = 0;  // the present sample: these the clock knows of
  uint64_t misses_before_ = 0;

  NativePace::Sample paced_;  // the present one
  BranchCounter branches_;
  bool cannot_count_ = false;
  // When the branches' passes are looked at in a native stretch, and those up to now.
  std::vector<double> looks_at_s_;
  struct Passes {
    std::vector<uint64_t> of_each;
    double native_s = 0;
  };
  std::vector<Passes> looks_;
  std::optional<PacedTime> speed_between(const Passes& from, const Passes& to) const;
  // What a pace check is still to judge: of any stretch, and with warm caches of a long one.
  struct Stretch {
    PacedTime usual;
    std::optional<PacedTime> warm;
  };
  std::optional<Stretch> paced_stretch_;

  Phase phase_ = Phase::recorded;
  bool may_go_native_ = false;
  NextSample next_;
  Registers stopped_{};  // the guest, idle or resting
  bool native_is_over_ = false;
  bool is_cut_short_ = false;
  unsigned steps_ = 0;
  SamplePieces pieces_;      // the present sample's
  double speed_before_ = 0;  // natively, right before it, instructions a second; 0: not known
  uint64_t instructions_before_ = 0;  // its present piece

  // A full buffer met another that is still being read: goes on from here.
  bool blocked_on_buffer_ = false;
  Registers blocked_registers_{};
  AwaitedCall awaited_;
  Registers awaiting_{};  // the guest, at that call
  std::optional<Outcome> wanted_end_;
  std::optional<Ending> ending_;
  bool dead_ = false;
  ProcessorTime processor_;
};

}  // namespace shadowprof::shadow
