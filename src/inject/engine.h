// SPDX-License-Identifier: MIT
//
// Runs guest threads in the code cache. This is the one loop over ptrace stops of full mode.
//
//   wait -> what stopped? -> [miss: translate, link] [drain] [system call] [signal] [new thread]
//        -> resume
//
// The program executes its own system calls and has its own signals; nothing is emulated:
//
//   system call   most are made by the thread itself in the gateway. Those that change mappings,
//                 dispositions or masks stop here, and are made at the guest's own address.
//   signal        the thread is brought to guest context, and the kernel builds the handler's frame
//                 from it, restarts an interrupted system call, and so on; it stops again before
//                 the handler's first instruction, which is then entered in the cache.
//   sigreturn     is made at the guest's own address; what it restores is entered in the cache.
//   rare insns    (int3, undefined opcodes, vsyscalls) are executed at their own address by one
//                 hardware step: the kernel does to the program what it always does.
//   trap flag     a thread that has set it executes its own code, and nothing of that is recorded,
//                 until the flag is clear (engine_trapped.cc).
//
// What cannot be run under the engine (guests that use GS, ...) ends it for that process: all its
// threads go on natively from where they are, and the reason is kept (run_notes.h). Those that
// wait for a vfork child, or in execve, follow when the kernel lets them out, and until then the
// process keeps its address space.
//
// The engine is what stops and resumes threads, and brings them from one context to the other
// (guest_thread.h). What it keeps is in parts that do not know it: they are given a thread, or all
// of them, and answer.
//
//   Bursts ◀─BurstEnd─▶ Engine ─▶ Guests         who is there
//                         │   ├─▶ SpaceKeeper    what they have: slots, address spaces
//                         │   ├─▶ Records        what is kept: executions, traces, notes, counts
//                         │   ├─▶ Branches       what is counted of branches that stop
//                         │   ├─▶ NewChildren    who is about to come
//                         │   ├─▶ FixedMachine   only where programs get one machine (fixed/)
//                         │   │     └▶ ProgramTime, TurnKeeper   and one time, and turns
//                         │   └─▶ WindowKeeper   only where collectors may have seen enough
//                         └─▶ StopQueue          what threads have reported
//
// What needs one thread only is functions of it:
//
//   guest_stop.h       what its stop means         guest_registers.h   the guest's registers
//   guest_signals.h    its mask, dispositions      signal_storm.h      signals that come too fast
//   sequence_watch.h   restartable sequences       native_insn.h       what it is about to execute
//   mapping_calls.h    calls that change memory    thread_state.h      its state, as /proc has it
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/stop.h"
#include "emu/translate/fragment_finder.h"
#include "inject/branches.h"
#include "inject/engine_options.h"
#include "inject/fixed/fixed_machine.h"
#include "inject/fixed/program_time.h"
#include "inject/guests.h"
#include "inject/new_children.h"
#include "inject/records.h"
#include "inject/space_keeper.h"
#include "inject/stop_queue.h"
#include "inject/window_keeper.h"
#include "ptrace/signal_cause.h"
#include "ptrace/wait.h"
#include "trace/trace_sink.h"

namespace shadowprof::inject {

struct ProgramEnd {
  bool signalled = false;
  int value = 0;  // exit status or signal
};

class Engine {
 public:
  using Registers = ptrace::Registers;

  Engine(trace::BlockTable& table, trace::TraceSink& sink, EngineOptions options);
  ~Engine();

  // Full mode.
  //
  // `thread` stands at its exec event.
  Status adopt(ptrace::Tracee thread);
  // Until the launched program and everything followed has ended. `on_interrupt` is called after
  // each stop, and when a signal handler of ours has run.
  Result<ProgramEnd> run(const std::function<void()>& on_interrupt);
  // Every process goes on natively. For `on_interrupt`.
  void leave_all(const std::string& reason);

  const Records& records() const { return records_; }
  // The calls in which threads that take turns have waited for somebody outside.
  std::vector<std::string> waits_for_others() const {
    return time_ ? time_->turns().waits_for_others() : std::vector<std::string>();
  }
  // Have they gone on without one that slept?
  bool has_lost_patience() const { return time_ && time_->turns().has_lost_patience(); }

  // For bursts.
  //
  // Threads and processes come with spaces(); then this is their way in and out.
  Guests& guests() { return guests_; }
  SpaceKeeper& spaces() { return spaces_; }
  Records& records() { return records_; }
  StopQueue& stops() { return stops_; }
  // What a thread has reported that is ours.
  void dispatch(Tid tid, const ptrace::WaitStatus& status);
  // From guest context (`regs`) into the cache, and on.
  void enter(GuestThread& t, Registers& regs);
  // Brings a thread that has been interrupted to guest context and leaves it stopped. False: it
  // dies, or sleeps in the kernel until others, who may need us, have done something: then it is in
  // the gateway.
  bool await_guest(GuestThread& t);
  // `at` is exact. Turns `regs` (of the engine) into the guest's, and records what part of a
  // fragment has run.
  void take_guest_state(GuestThread& t, Registers& regs, const emu::CachePosition& at);
  // From guest context: what comes next happens at the program's own addresses.
  void let_go(GuestThread& t, const Registers& regs, int signal);
  // The same in a burst, for a thread that has no part in it any more. `regs` are the guest's.
  void let_out(GuestThread& t, const Registers& regs);
  // For the code of its process.
  emu::FragmentFinder finder(GuestThread& t);

 private:
  // engine.cc: the loop and the stops that translation makes.
  void on_signal_stop(GuestThread& t);
  void on_alignment_fault(GuestThread& t, Registers& regs);
  void on_special_insn(GuestThread& t, Registers& regs, const cache::Stop& stop);
  void on_stored_pointer(GuestThread& t, const Registers& regs, const emu::CachePosition& at);
  void on_miss(GuestThread& t, Registers& regs, const cache::Stop& stop);
  void on_indirect_miss(GuestThread& t, Registers& regs, const cache::Stop& stop);
  void on_stale(GuestThread& t, Registers& regs, const emu::CachePosition& at);
  std::optional<FragmentId> fragment_for(GuestThread& t, GuestAddr pc, std::optional<RunId> site);
  void flush(GuestThread& t);
  bool quiesce(GuestThread& t);
  bool settle(GuestThread& t, const ptrace::WaitStatus& stop, Registers& regs);
  void resume(GuestThread& t, int signal = 0);
  void go_on(GuestThread& t);
  void go_on_behind_interrupt(GuestThread& t);

  // engine_context.cc: from engine to guest context and back.
  bool to_guest(GuestThread& t, Registers& regs);
  bool step_to_exact(GuestThread& t, Registers& regs);
  bool step_inserted_code(GuestThread& t, Registers& regs);
  bool step_to_border(GuestThread& t, Registers& regs);
  void go_in(GuestThread& t, Registers& regs);
  void step_without_code(GuestThread& t, Registers& regs);
  void note_native(GuestThread& t, const emu::Fragment* fragment);
  void native_step(GuestThread& t, Registers& regs, const emu::Fragment* fragment);
  void drain_in_engine(GuestThread& t, Registers& regs);
  bool counting() const { return records_.counting(); }
  bool takes_turns() const { return time_ && time_->turns().is_active(); }
  bool tracing() const { return records_.tracing(); }

  // engine_signals.cc
  void deliver(GuestThread& t, Registers& regs, const siginfo_t& info);
  void leave_with_signal(GuestThread& t, Registers& regs, const siginfo_t& info);
  void die_untraced(GuestThread& t, Registers& regs, ptrace::SignalCause cause);
  void leave_pending(GuestThread& t, Registers& regs, const siginfo_t& info);
  void deliver_to_handler(GuestThread& t, Registers& regs, const siginfo_t& info);
  void note_uncounted_step(GuestThread& t, const Registers& before, Registers& after);
  bool may_be_storm(const siginfo_t& info) const;
  bool note_ignored(GuestThread& t, const Registers& regs, const siginfo_t& info) const;
  void drop_handler(GuestThread& t, const siginfo_t& info);
  void redeliver_deferred(GuestThread& t);

  // engine_storm.cc
  void enter_for_a_moment(GuestThread& t, Registers& regs);
  void run_for_a_moment(Tid tid, const Registers& start);
  void on_moment_over(GuestThread& t);
  void make_held_call(GuestThread& t, Registers& regs);

  // engine_trapped.cc
  void run_trapped(GuestThread& t, Registers& regs);
  void make_trapped_call(GuestThread& t, Registers& regs);

  // engine_sequences.cc
  void ignore_breakpoint(GuestThread& t, Registers& regs);
  void on_announced_sequence(GuestThread& t, Registers& regs);
  void run_sequence(GuestThread& t, const RestartableSequence& sequence,
                    std::span<const GuestAddr> exits, const Registers& regs);
  void go_on_behind_sequence(GuestThread& t, const ptrace::WaitStatus& stop);

  // engine_syscalls.cc
  bool makes_untraced(GuestThread& t, const Registers& regs);
  void make_watched_call(GuestThread& t, Registers& regs);
  void on_tracer_syscall(GuestThread& t, Registers& regs);
  bool leave_to_gateway(GuestThread& t, Registers& regs);
  void before_open(GuestThread& t, const Registers& regs);
  bool run_native_syscall(GuestThread& t, Registers& regs);
  Tid known_to(const GuestThread& t, int32_t id) const;
  bool make_room_for_tracer(GuestThread& t, const Registers& regs);
  bool make_room_for_mapping(GuestThread& t, const Registers& regs);
  bool answer_without_kernel(GuestThread& t, Registers& regs);
  void return_from_call(GuestThread& t, Registers& regs, int64_t result);
  void after_native_syscall(GuestThread& t, const Registers& before, const Registers& after);

  // engine.cc: where threads take turns.
  ptrace::WaitOutcome next_report();
  bool add_turn_checks(GuestThread& t);
  void on_turn_over(GuestThread& t);
  void on_wait_over(GuestThread& t);
  void pass_turn(GuestThread& t);

  // engine_processes.cc
  NewChild child_of(GuestThread& t, const Registers& regs);
  void on_new_child(GuestThread& t, ptrace::StopEvent event);
  bool is_over() const;
  void announce_for_killed(GuestThread& t, const Registers& regs);
  void start_ready_children();
  void start_announced(Tid child);
  void start_child(Tid child, const NewChild& info);
  void on_exec(Tid tid);
  void on_exit_event(GuestThread& t);
  bool move_space(GuestThread& t, const Registers& regs, GuestRange avoided);
  void go_native(GuestProcess& process, const std::string& reason);
  void note_unsupported(GuestThread& t, const Registers& regs, const char* reason);
  void leave_at_stop(GuestThread& t, const ptrace::WaitStatus& stop);
  void leave_natively(GuestThread& t, Registers& regs, int signal);
  void on_death(Tid tid, const ptrace::WaitStatus& status);

  trace::BlockTable& table_;
  StopQueue stops_;
  EngineOptions options_;
  Guests guests_;
  std::unique_ptr<FixedMachine> machine_;  // where the programs get one
  ProgramTime* time_;                      // a part of it, or nullptr
  NewChildren children_;
  Records records_;
  SpaceKeeper spaces_;
  Branches branches_;
  std::optional<WindowKeeper> windows_;  // where collectors may have seen enough
  std::optional<ProgramEnd> root_end_;
  unsigned steps_without_code_ = 0;  // one within the other
  Tid root_;
};

}  // namespace shadowprof::inject
