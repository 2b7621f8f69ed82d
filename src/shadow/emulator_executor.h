// SPDX-License-Identifier: MIT
//
// Runs a sample in the interpreter. The replica stays frozen where it was forked; its memory is
// read as needed and written only in our copy.
//
// The interpreter has a thread of its own, so that the tracer's is free for the program's stops
// however long a stretch takes. The two take turns with everything here but what is atomic: the
// worker runs guest code; where it needs a system call it hands over and sleeps, and tells the
// tracer's thread by a SIGCHLD, which that awaits with its tracees' reports. ptrace works from that
// thread only.
//
// A system call is answered by the same rules as the translator's (system_calls.h). What of them
// has to be made is made by the replica: before, what the guest has written since the last one is
// copied to it; afterwards what the call may have changed there is fetched anew.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "shadow/emulator_space.h"
#include "shadow/execution.h"
#include "shadow/replica.h"
#include "shadow/system_calls.h"
#include "trace/trace_sink.h"

namespace shadowprof::shadow {

class EmulatorExecutor : public Execution {
 public:
  EmulatorExecutor(EmulatorSpace& space, trace::TraceSink& sink, Replica replica,
                   Identity identity, Budget budget);
  ~EmulatorExecutor() override;

  Status start() override;
  void on_stop(const ptrace::WaitStatus& status) override;
  void on_idle() override;
  void request_end(Outcome outcome) override;
  void become_idle() override {}
  void proceed(const NextSample&) override {}

  Tid tid() const override { return replica_.tracee.tid(); }
  bool is_our_child() const override { return replica_.is_our_child; }
  const std::optional<Ending>& ending() const override { return ending_; }
  bool is_done() const override;
  double next_idle() const override;
  double guest_seconds() const override { return 0; }
  const ExecutorCounts& counts() const override { return counts_; }
  const ProcessorTime& processor() const override { return processor_; }
  ProcessorTime processor_now() const override { return processor_time_of(worker_tid_); }
  bool in_our_process() const override { return true; }
  bool is_idle() const override { return false; }
  bool rests() const override { return false; }
  bool is_native() const override { return false; }
  void leave_idle_priority() override;

 private:
  // Who may touch the state that both threads use.
  enum class Turn : uint8_t { worker, tracer, over };

  // emulator_executor.cc, on the worker's thread.
  void work();
  void prepare_thread();
  bool run_slice();
  bool hand_over();
  bool switch_thread();
  bool deal_with(const emu::Stopped& stopped);
  void submit_buffer();
  void end_streams();
  bool end(Outcome outcome, std::string detail = {});
  void load(size_t thread);
  void store();
  GuestThread& current() { return *threads_[current_]; }
  Tid stream(size_t thread) const { return Tid(static_cast<int32_t>(thread)); }
  trace::Chunk chunk(size_t thread, std::span<const trace::Word> words) const {
    return {.thread = stream(thread),
            .words = words,
            .process = calls_.program(),
            .guest = threads_[thread]->tid};
  }

  // emulator_calls.cc, on the tracer's thread while it has the turn.
  bool serve_system_call();
  void count_system_call();
  bool answer_system_call();
  void carry_out(SyscallAnswer answer);
  Status put_memory(ptrace::RemoteSyscalls& remote);
  void take_memory(const kernel::SyscallRow* row, const SyscallArguments& arguments,
                   int64_t answer);
  void refresh_areas();
  void finish_thread();

  EmulatorSpace& space_;
  trace::TraceSink& sink_;
  Replica replica_;
  Budget budget_;
  SharedPages shared_;
  GuestThreads threads_;
  SystemCalls calls_;
  AwaitedCall awaited_;
  ExecutorCounts counts_;
  std::unique_ptr<machine::MemorySource> source_;
  machine::MemoryView view_;
  size_t current_ = 0;
  uint64_t fragments_before_ = 0;

  uint64_t tickets_[EmulatorSpace::kBuffers] = {};
  size_t buffer_ = 0;
  size_t used_ = 0;  // words of it

  std::thread worker_;
  mutable std::mutex mutex_;
  std::condition_variable turned_;
  Turn turn_ = Turn::worker;
  std::optional<Ending> worker_ending_;  // of who has the turn
  bool abandoned_ = false;               // nobody will take the tracer's turn any more
  bool leaves_ = false;  // the thread that made the system call waits, yields or is no more
  std::atomic<bool> stop_wanted_ = false;
  std::optional<Outcome> wanted_end_;  // under mutex_
  std::atomic<bool> at_idle_priority_ = false;
  Tid worker_tid_;

  std::optional<Ending> ending_;
  bool dead_ = false;
  ProcessorTime processor_;
};

}  // namespace shadowprof::shadow
