// SPDX-License-Identifier: MIT
//
// Processor time by looks at the programs' threads, for hosts whose kernel permits no clock events.
// What a look stands for is said in look_rules.h.
//
// A look stops each of a few threads that run for some 20 us, one after the other; threads that
// sleep are asked nothing. One that waits for a processor stops when it has one, and counts not.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "clock/time_account.h"
#include "sample/look_rules.h"
#include "sample/time_source.h"
#include "shadow/program.h"

namespace shadowprof::sample {

// What a run gives to who looks at its programs.
struct ProgramAccess {
  // Null: there is none any more.
  std::function<shadow::Program*(Tid process)> find;
  // Handles a report of this thread's, if there is one; a program may be gone then.
  std::function<void(Tid thread)> serve;
};

class TimeLooks : public TimeSource {
 public:
  TimeLooks(double budget_share, uint64_t seed, ProgramAccess access,
            clock::TimeAccount& account);

  const char* name() const override { return "looks"; }
  bool sees_kernel() const override { return true; }
  bool has_equal_ticks() const override { return false; }
  Status begin(Tid process, double now) override;
  void forget(Tid) override {}  // a look sees it
  double next() const override { return moments_.next(); }
  void look(double now) override;
  void end(double now) override;
  double take_cost() override;
  void set_budget(double share) override { moments_.set_budget(share); }
  const ProgramSchedule& schedule() const override { return schedule_; }

 private:
  // A look at a thread that has not stopped for it yet.
  struct Pending {
    double stands_for_s = 0;
    double late_s = 0;     // it was asked so long after the moment that was drawn
    double stopped_s = 0;  // if that was seen at once
  };
  // Processor time, by the kernel's account.
  struct Used {
    double at_begin_s = 0;
    double now_s = 0;
    double seconds() const { return now_s - at_begin_s; }
  };
  struct Watched {
    unsigned generation = 0;  // of the program
    double began_s = 0;
    Used used{};
    std::map<Tid, Used> threads{};
    uint64_t mapped_pages = 0;
    double maps_again_s = 0;  // not read before
    uint64_t looks = 0;  // that count
    // Threads that had lost the processor to the look.
    std::vector<std::pair<uint64_t, clock::Tick>> doubtful{};  // with their moments
    std::map<Tid, Pending> pending{};
  };
  struct Moment {
    double now;
    double late_s;
    double stands_for_s;
  };
  void look_at(Tid process, const Moment& moment);
  std::vector<Tid> choose(std::vector<Tid> threads);
  double look_at_thread(Tid process, Tid thread);
  void take_seen(Tid process, Watched& watched, double now);
  clock::Tick tick_of(Tid process, const shadow::SeenThread& seen, double stands_for_s);
  void note_exec(Tid process);
  void learn_code(Tid process, Watched& watched, double now,
                  const std::vector<shadow::SeenThread>& seen);
  static void read_processor_time(Tid process, Watched& watched);
  void conclude(Tid process, Watched& watched);

  ProgramAccess access_;
  clock::TimeAccount& account_;
  LookMoments moments_;
  std::mt19937_64 random_;
  std::map<Tid, Watched> watched_;  // by process
  ProgramSchedule schedule_;
  Tid first_;
  double cost_s_ = 0;  // since the last take_cost()
  double stopped_s_ = 0;  // all threads that ran, in this look
  unsigned stopped_ = 0;
  uint64_t stops_ = 0;
  uint64_t waiting_ = 0;
};

}  // namespace shadowprof::sample
