// SPDX-License-Identifier: MIT
//
// What threads and processes have of the engine while it owns them, and give back: a process its
// address space (the code cache, the translations, the slots), a thread its slot and its trace.
//
//   a process comes    make(), or enter() where it has just executed a program
//   a thread comes     add_thread(), give_slot()
//   it ends, leaves    release(), and then it is removed from Guests
//   nobody is left     leave_unused(): counters are taken, and the space goes
//
// Threads that it is given are stopped in guest context, or have ended. It makes their system calls
// where memory is mapped; nothing is resumed here, and the engine is not known.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "inject/engine_options.h"
#include "inject/fixed/fixed_machine.h"
#include "inject/guests.h"
#include "inject/records.h"
#include "trace/block_table.h"

namespace shadowprof::inject {

class SpaceKeeper {
 public:
  using Space = std::unique_ptr<cache::AddressSpace>;

  // `machine`: nullptr where there is none. All outlive it.
  SpaceKeeper(trace::BlockTable& table, const EngineOptions& options, Guests& guests,
              Records& records, FixedMachine* machine)
      : table_(table), options_(options), guests_(guests), records_(records), machine_(machine) {}

  // What has `deferred` appends signals to it that are to be given back (ptrace/remote_syscall.h).

  // `thread` stands at a stop from which it can make system calls; nothing of ours is mapped yet.
  // The program will map memory of its own at `avoided`: the code cache goes elsewhere.
  Result<Space> make(ptrace::Tracee thread, const GuestProcess& process,
                     ptrace::TraceOptions options, std::vector<siginfo_t>& deferred,
                     GuestRange avoided = {});
  // The thread stands at its exec event, of a program that another one has executed.
  Result<Space> enter(ptrace::Tracee thread, const GuestProcess& process,
                      std::vector<siginfo_t>& deferred);
  // All threads of the process are in guest context, and its space goes elsewhere. Afterwards only
  // `t` has a slot.
  Status replace(GuestThread& t, GuestRange avoided);

  GuestThread& add_thread(Tid tid, GuestProcess& process);
  Status give_slot(GuestThread& t);
  // The last of its trace, and its slot. Idempotent.
  void release(GuestThread& t, trace::EndReason reason);
  // One that has ended, if it is ours.
  void forget_thread(Tid tid);
  // A thread that has ended has no memory, while its process lives on.
  void look_through_another(const GuestThread& ending);

  // The process has no use for its space any more.
  void leave(GuestProcess& process);
  // If it has none: threads that sleep when their process leaves the engine need it for their way
  // out, and memory to look through: who had it before may be native now, and end unseen.
  void leave_unused(GuestProcess& process);

  // A process goes on, or begins, outside the engine. How much was counted is known where nobody
  // counts any more.
  void note_leaving(const GuestProcess& process, const std::string& what);
  // When counting, while threads run: what was counted up to now, or a little less.
  uint64_t instructions_so_far();

 private:
  void note_name(const GuestThread& t);

  trace::BlockTable& table_;
  const EngineOptions& options_;
  Guests& guests_;
  Records& records_;
  FixedMachine* machine_;
};

}  // namespace shadowprof::inject
