// SPDX-License-Identifier: MIT
//
// Bursts: the program runs natively, and its threads visit the engine for a few milliseconds.
//
//   begin_burst -> admit each thread that runs -> serve reports -> end_burst -> conclude_burst
//
// Who serves them waits for reports with poll() and serve(). Inside, threads are the engine's, as
// in full mode; here is how they come and go. The engine asks for the end of the burst where it
// meets what it cannot run (BurstEnd), and lets out one thread by itself (Engine::let_out).
//
// A thread is in one of four states. The engine owns it in all but the first.
//
//   native   ──admit──▶ inside
//   inside   the engine's, as in full mode
//              ──end_burst, fork, vfork, execve──▶ out
//              ──end_burst, while it sleeps in a system call of the gateway──▶ asleep
//   asleep   waking it would be seen. Its slot says that it leaves: so the gateway's code makes its
//            registers the guest's when the call is over (emu/code_cache.cc, emit_way_out), whether
//            we live or not.
//              ──its next report; found running by a pause (regain)──▶ native
//   out      let go with the guest's registers; what it has recorded is still to be handed over
//              ──its next report; conclude_burst──▶ native
//
// Outside `inside` whatever a thread reports is for who looks after native threads, but for its
// end. Slots belong to their threads until these are native, and stay mapped, as code cache and
// translations do, from one burst to the next.
//
// Threads that sleep in the kernel when a burst begins take no part in it: they wake up natively.
// So do threads and processes that are made in a burst. Who makes a thread does so in guest
// context, at the guest's own address, and goes on in the engine; who makes a process, or executes
// a program, which take their time, goes out for that. So nothing is ever born in the cache, nobody
// waits there for a child, and a parent's and a child's reports need not be brought together.
//
// What natively running threads do to code nobody sees: begin_burst() compares the mappings, and
// the pages of files that were written; generated code is compared with memory whenever it runs.
//
// Restartable sequences (rseq(2)) are not restarted in the code cache. Who is in one does not come
// in; who announces one goes out, at its abort address (engine_sequences.cc).
#pragma once

#include <csignal>
#include <span>
#include <vector>

#include "emu/translate/prefill.h"
#include "inject/engine.h"

namespace shadowprof::inject {

class Bursts final : public BurstEnd {
 public:
  using Registers = ptrace::Registers;

  Bursts(trace::BlockTable& table, trace::TraceSink& sink, const EngineOptions& options)
      : options_(options_for(options)), engine_(table, sink, options_), guests_(engine_.guests()) {}

  // What has `deferred` appends signals to it that are to be given back (ptrace/remote_syscall.h).

  // Whether bursts can be recorded on this host, whatever the program is.
  static Status check_host(bool counting);
  // Maps what the engine needs for so many threads. `thread`, of `process`, is stopped in guest
  // context, and stays. Others that run meanwhile may see a descriptor of ours.
  Status open(ptrace::Tracee thread, Tid process, size_t threads, std::vector<siginfo_t>& deferred);
  bool is_open() const { return visited() != nullptr; }
  bool has_room_for(size_t threads) const;
  // A thread that a pause has stopped, with these registers: if it had gone out of the engine by
  // itself, or is about to, it is native from here on, and they become the guest's.
  void regain(Tid tid, Registers& regs);
  // Before the threads of a burst come, which are stopped: looks, through one of them, what has
  // changed in the program.
  void begin_burst(Tid running);
  // `thread` is stopped in guest context with these registers, and goes on in the code cache. An
  // Error: it cannot, and is as it was.
  Status admit(ptrace::Tracee thread, Registers regs, std::vector<siginfo_t>& deferred);
  // All threads go on natively. Those that sleep in a system call leave when it is over.
  void end_burst() override;
  // What those who left have recorded goes to the collectors, however long they take.
  void conclude_burst();
  // Nobody is in the engine, but for those who sleep: because the burst is over, or something was
  // met that cannot run under the engine.
  bool burst_is_over() const;
  // Because of the second.
  bool is_unsupported() const { return is_open() && visited()->native; }
  bool owns(Tid tid) const { return guests_.threads.contains(tid); }
  ptrace::WaitOutcome poll() { return engine_.stops().poll(); }
  // A report about a thread that the engine owns. False: the thread is native now, and the report
  // is for who looks after those.
  bool serve(Tid tid, const ptrace::WaitStatus& status);
  // Translates what lies at these addresses, and where that and what the last burst has translated
  // lead to, looking at `limit` fragments at most; returns how many were new. Between bursts.
  size_t translate_ahead(std::span<const GuestAddr> pcs, size_t limit);
  // The code of the program that visits.
  cache::GuestCode& code() const { return visited()->space->code(); }
  // When counting: adds up what was counted up to now; the number of instructions.
  uint64_t count_instructions();
  // The program has executed another one, or ended: what was mapped into it is gone.
  void forget_program();
  // Takes what was mapped out of the program. An Error: a thread is asleep in there.
  Status close(ptrace::Tracee thread, std::vector<siginfo_t>& deferred);
  // Threads that still sleep in a system call of the engine's.
  bool has_sleepers() const { return !guests_.threads.empty(); }
  // Interrupts them: they restart it natively.
  void wake_sleepers();

  const Records& records() const { return engine_.records(); }

 private:
  EngineOptions options_for(EngineOptions options) {
    options.bursts = this;
    return options;
  }
  GuestProcess* visited() const;
  Status make_room(GuestProcess& process, ptrace::Tracee thread, size_t threads,
                   std::vector<siginfo_t>& deferred);
  void take_back(GuestThread& t, Registers& regs);
  void await_leavers(std::vector<GuestThread*> awaited);

  EngineOptions options_;
  Engine engine_;
  Guests& guests_;                  // the engine's
  ptrace::SignalMask ignored_ = 0;  // when the burst began
  emu::Prefill prefill_;
};

}  // namespace shadowprof::inject
