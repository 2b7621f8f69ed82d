// SPDX-License-Identifier: MIT
//
// What executes a burst: threads of the program itself, for a few milliseconds.
//
//   look_at() -> Pause -> begin(): takes the threads out of it -> serve(), work() -> end() ->
//   conclude()
//
// From begin() to end() the engine owns the threads that it took, and whatever the kernel reports
// about them; all others run natively. After end() every thread is native, or will be when the
// system call that it sleeps in is over.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collect/weights/sample_series.h"
#include "profile/profile.h"
#include "ptrace/wait.h"
#include "shadow/pause.h"
#include "trace/code_shares.h"

namespace shadowprof::sample {

struct BurstTotals {
  uint64_t fragments = 0;
  double translation_s = 0;
  std::map<std::string, uint64_t> stops;   // by kind
  std::map<unsigned, uint64_t> by_number;  // system calls
};

class BurstEngine {
 public:
  virtual ~BurstEngine() = default;

  // Is everything in the program that a burst of so many threads needs?
  virtual bool is_open(size_t) const { return true; }
  // Puts it there. All threads of the program are stopped.
  virtual Status open(shadow::Pause&, size_t) { return {}; }
  // After each pause: those that had come out of the engine unseen are native from here on.
  virtual void regain(shadow::Pause&) {}

  // What begin() needs to know of the process, while it runs; it may be otherwise by then.
  virtual void look_at(shadow::Program&) {}
  // Traces of the next burst have this number; else it is the engine's.
  virtual void number_next(uint64_t) {}
  // All threads of `paused` were running, and are stopped. Those that take part are taken out of
  // it and go on under the engine. An Error: none does, and all are as they were.
  virtual Status begin(shadow::Pause& paused) = 0;
  virtual bool owns(Tid tid) const = 0;
  // A report about a thread that it owns. False: the thread is native now, and the report is for
  // who looks after those.
  virtual bool serve(Tid tid, const ptrace::WaitStatus& status) = 0;
  // For engines that work in our own process: a little of it. False: there is nothing to do but to
  // wait for reports.
  virtual bool work() { return false; }
  // The threads make no progress worth the name: all of a burst is a pause to the program.
  virtual bool halts_program() const { return false; }
  // It executes in our own processor time, and not in the program's.
  virtual bool is_in_our_process() const { return false; }
  // Nobody takes part any more.
  virtual bool is_over() const = 0;
  // And why.
  virtual const char* reason() const { return "system_call"; }
  virtual void end() = 0;
  // What takes time and nobody waits for. Instructions that were executed since begin(), if known.
  virtual uint64_t conclude() = 0;
  // Those, by code. Null: not known.
  virtual const trace::CodeShares* shares() const { return nullptr; }
  // How the part of the program was chosen that the last burst is.
  virtual collect::SampleSeries::Drawn drawn() const {
    return collect::SampleSeries::Drawn::by_time;
  }

  // The next report of any traced thread, without waiting.
  virtual ptrace::WaitOutcome poll() { return ptrace::wait_any(ptrace::WaitMode::poll); }

  // Between bursts, the program stopped: it will soon be somewhere near. What is learned is used by
  // prepare(), when the program runs again.
  virtual void look(shadow::Pause&) {}
  // How much there was to prepare.
  virtual size_t prepare() { return 0; }

  // The program's memory is another one, or gone.
  virtual void forget_program() = 0;
  // Before remove(): threads that still sleep in something of the engine's are woken.
  virtual bool has_sleepers() const { return false; }
  virtual void wake_sleepers() {}
  // Takes out of the program what was put into it; a thread is stopped for that. An Error says what
  // is left.
  virtual Status remove(shadow::Pause&) { return {}; }

  virtual BurstTotals totals() const = 0;
  virtual void finish(profile::Profile&) {}
  virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace shadowprof::sample
