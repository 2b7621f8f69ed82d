// SPDX-License-Identifier: MIT
//
// One process that is sampled: the space that its replicas run in, and what samples cost it.
//
//   fork()     a pause of the program, and a replica that has not run yet
//   interpret()   instead of it, where that takes too long: what the program would do next is
//              interpreted while it stands still (burst_emulator.h)
//   begin()    before it, and
//   end()      after the replica's death, and
//   settle()   between replicas: the program's page faults, as far as samples cause them
//   look(), fill_ahead()   between samples: what the next one will execute is translated
//   leave()    nothing of ours is in the program any more, and it is traced no longer
//
// A process that another one forked begins with the space of that: its code is the same, or is
// found to be another one when a replica of it is prepared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sample/burst_emulator.h"
#include "sample/code_directory.h"
#include "sample/fault_account.h"
#include "sample/replica_engine.h"
#include "sample/seen_code.h"
#include "sample/wanted_part.h"
#include "sample/written_pages.h"
#include "shadow/emulator_space.h"
#include "shadow/execution.h"
#include "shadow/pause.h"
#include "shadow/replica.h"
#include "shadow/shadow_space.h"
#include "shadow/system_calls.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

class SampledProcess {
 public:
  // One engine's, or the other's, or none yet.
  struct Space {
    std::shared_ptr<shadow::ShadowSpace> translated;
    std::shared_ptr<shadow::EmulatorSpace> emulated;
    bool exists() const { return translated || emulated; }
  };

  // Times are in seconds since sampling began.
  SampledProcess(shadow::Program program, Space space, double now);

  shadow::Program& program() { return program_; }
  // Whether it has executed another program since it was asked last.
  bool has_executed() {
    return std::exchange(known_generation_, program_.generation()) != program_.generation();
  }
  const shadow::Program& program() const { return program_; }
  // Where there is none, or the program has become another one.
  Status make_space(Engine engine, trace::BlockTable& table, const shadow::SpaceOptions& options);
  void drop_space();
  // What replicas capture from the next trace buffer on.
  void set_shares(const shadow::CaptureShares& shares) {
    if (space_.translated) space_.translated->set_shares(shares);
  }
  // Samples begin in that part alone. It outlives this.
  void begin_only_in(WantedPart* part) { part_ = part; }
  // Empty where the child is not a copy of what the space was made for.
  Space space_of_child() const {
    return space_generation_ == program_.generation() ? space_ : Space();
  }

  // Why it is not forked, before it executes another program; null: it may be.
  const char* no_fork() const {
    return no_fork_.empty() || no_fork_of_ != program_.generation() ? nullptr : no_fork_.c_str();
  }
  // `count` replicas of one moment. A log of the program's input is kept for the first as long as
  // that costs no more than `log_s` seconds; 0: none is. EAGAIN: the program sleeps. ECANCELED: it
  // is not in the part that is wanted.
  Result<std::vector<shadow::Replica>> fork(size_t count, bool at_idle_priority, double log_s,
                                            double& pause);
  // What a fork would copy page table entries for, as it was last looked at; with huge pages less.
  double resident_pages() const { return static_cast<double>(marks_.pages); }
  // Pages of these that it would write to because of another fork. For a replica that lives it has
  // copied so many up to now.
  double written_pages(double copied = 0) const { return account_.expected(marks_.pages, copied); }
  bool resembles_last_fork() const { return account_.resembles_last(marks_.pages); }
  struct Interpreted {
    double pause = 0;       // seconds
    double emulated_s = 0;  // of them
    uint64_t instructions = 0;
    trace::CodeShares shares{};
    collect::SampleSeries::Drawn drawn{};
    const char* ended = "budget";  // by what
  };
  // As far as bursts of this memory show (WrittenPages).
  bool writes_same_pages() const { return written_.are_the_same(); }
  // From each thread as many instructions as the budget says, if its seconds suffice; or from one
  // of them, by this number, while the others go on. Errors: as for fork().
  Result<Interpreted> interpret(trace::BlockTable& table, trace::TraceSink& sink,
                                const shadow::Budget& budget, std::optional<uint64_t> only);
  // One that will not be run.
  void let_die(const shadow::Replica& replica);
  shadow::Identity identity(const shadow::Replica& replica) const {
    return {program_.pid(), replica.parent_pid, replica.forked_at};
  }
  // What will run it.
  std::unique_ptr<shadow::Execution> make_execution(const trace::BlockTable& table,
                                                    trace::TraceSink& sink,
                                                    shadow::Replica replica,
                                                    const shadow::Budget& budget);
  // For a replica that was not our own child: to be reaped at the next pause.
  void died(Tid replica);
  // A replica faulted: perhaps it missed memory.
  void copy_all_memory() { fork_options_.all_memory = true; }

  // Does something while it stands still; the answer is for how long. EAGAIN: it sleeps.
  Result<double> hold(const std::function<void(shadow::Pause&)>& work);
  // Where is it now? Costs it a short stop; the answer is how long. EAGAIN: it sleeps.
  Result<double> look();
  // While no replica runs in its space: translates code that it has been seen at, or that earlier
  // runs have, for less than a millisecond. `directory` may be null. Returns how many translations
  // are new; nothing: there was nothing to do.
  std::optional<size_t> fill_ahead(CodeDirectory* directory, emu::CapturePlan plan,
                                   emu::TranslationCost& cost);

  // What replicas use of the processors is taken from what it may use.
  bool has_processor_quota();

  // As FaultAccount's; `reused` is FaultMarks'.
  double settle(double now, std::optional<uint64_t> reused) {
    return account_.settle(now, look(now, reused));
  }
  void begin(double now) { account_.begin(now, look(now)); }
  double end(double now, std::optional<uint64_t> reused) {
    return account_.end(now, look(now, reused));
  }
  void failed() { account_.failed(); }
  double faults_of_ours(double now) { return account_.ours(now, look(now)); }
  // Page faults of the program up to the last of these.
  uint64_t faults_seen() const { return marks_.faults; }

  void leave();
  // Those of its replicas that nobody has any more end: there was no memory for what was to have
  // them.
  void end_lost_replicas();
  // While no replica of it lives: it is traced by whoever takes it, who also has the dead replicas
  // that are still to be reaped. Nothing but the destructor may be called after that.
  struct Handed {
    shadow::Program program;
    std::vector<Tid> zombies{};
  };
  Handed hand_over() { return {std::move(program_), std::move(zombies_)}; }
  void ended(double now) { gone_at_ = now; }

  // The program's since it is sampled; from the last look on, as busy as before.
  double cpu_s(double now) const;
  // Seconds since the last call for which it has stood still, and nothing came of it.
  double take_stood_in_vain() { return std::exchange(stood_in_vain_s_, 0); }
  // Processor time that it has used meanwhile, exactly; when it has ended, up to the last question.
  double used();

 private:
  Status find_calls();
  Status fork_into(shadow::Pause& stopped, std::vector<shadow::Replica>& replicas, size_t count,
                   double log_s);
  void keep_log(shadow::Replica& replica, double most_s);
  void see(Tid process, const ptrace::Registers& registers);
  FaultMarks look(double now, std::optional<uint64_t> reused = std::nullopt);

  shadow::Program program_;
  unsigned known_generation_;
  Space space_;
  unsigned space_generation_ = 0;
  GuestAddr syscall_insn_;
  unsigned searches_in_vain_ = 0;  // for it
  shadow::ForkOptions fork_options_;
  std::string no_fork_;
  unsigned no_fork_of_ = 0;  // which of its generations
  std::vector<Tid> zombies_;
  std::vector<Tid> replicas_;  // its own children, that have not died
  std::unique_ptr<BurstEmulator> interpreter_;
  unsigned interpreter_generation_ = 0;
  WrittenPages written_;  // of that generation
  SeenCode seen_;
  bool has_news_ = false;               // it was looked at, or a sample has translated something
  std::vector<GuestAddr> ahead_;        // to be translated
  std::set<GuestAddr> known_mappings_;  // whose code of earlier runs is in there, or was
  double first_look_ = 0;
  double last_look_ = 0;
  double gone_at_ = 0;
  double stood_in_vain_s_ = 0;
  double cpu_at_first_ = 0;
  double cpu_at_last_ = 0;
  double used_ = 0;         // in its whole life
  double used_before_ = 0;  // it is sampled
  WantedPart* part_ = nullptr;  // null: the whole program
  std::optional<bool> has_processor_quota_;  // once it was asked
  FaultMarks marks_;                         // when it was last looked at
  FaultAccount account_;
};

}  // namespace shadowprof::sample
