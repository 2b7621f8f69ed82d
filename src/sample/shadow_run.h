// SPDX-License-Identifier: MIT
//
// The event loop of shadow mode: one program, its replicas, and the governor that says when.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inject/trace_sink.h"
#include "sample/governor.h"
#include "shadow/executor.h"
#include "shadow/program.h"

namespace shadowprof::sample {

struct ShadowRunOptions {
  uint64_t sample_size = 0;  // instructions; 0: as the run goes on
  size_t max_shadows = 1;
  double duration = 0;
  double neighbour_cost = 0;  // to the program, of each second that a replica runs beside it
  emu::CapturePlan plan{};
};

struct ShadowRunCounts {
  uint64_t forks = 0;
  uint64_t instructions = 0;
  uint64_t fragments = 0;
  uint64_t misses = 0;
  uint64_t drains = 0;
  uint64_t system_calls = 0;
  uint64_t private_pages = 0;
  uint64_t sleeping = 0;  // samples not taken: nothing ran
  uint64_t refused = 0;   // samples that failed
  double extra_faults = 0;
  double translation_s = 0;
  double replica_cpu_s = 0;
  std::vector<double> pauses;
  std::map<std::string, uint64_t> ended;
  std::map<unsigned, uint64_t> by_number;
  std::map<unsigned, uint64_t> ended_by_number;
};

class ShadowRun {
 public:
  ShadowRun(trace::BlockTable& table, inject::TraceSink& sink, shadow::Program program,
            ShadowRunOptions options, const GovernorOptions& governor, const FaultPrice& price);
  ~ShadowRun();

  // A program that was just launched runs from here on.
  void let_go();
  // Until the program has ended, or its time is up, or somebody interrupted us. The program goes on
  // in the last two cases; nothing of ours is left in it.
  void run();

  const shadow::Program& program() const { return program_; }
  const Governor& governor() const { return governor_; }
  const ShadowRunCounts& counts() const { return counts_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  double elapsed() const;
  // How long samples were taken: up to the program's end, or until sampling was over.
  // Of the program while it was sampled.
  double program_cpu_s() const;
  double sampling_s() const { return sampling_s_ > 0 ? sampling_s_ : elapsed(); }

 private:
  struct Sample {
    std::unique_ptr<shadow::Executor> executor;
    SampleCost cost;
    uint64_t faults_at_fork = 0;
    double forked_at = 0;
  };

  bool handle_reports();
  void handle(const ptrace::WaitOutcome& outcome);
  void look_after_replicas();
  void finish(Sample& sample);
  void sample();
  Result<shadow::Replica> fork(double& pause);
  Status refresh_space();
  uint64_t sample_size() const;
  void wait_until(double moment);
  void judge_crowding(const shadow::ProcessorTime& time, SampleCost& cost);
  void end_replicas();
  void leave_program();
  void wait_for_end();
  double next_event() const;
  uint64_t look_at_program();
  void warn_once(const std::string& sentence);

  trace::BlockTable& table_;
  inject::TraceSink& sink_;
  shadow::Program program_;
  ShadowRunOptions options_;
  Governor governor_;
  ShadowRunCounts counts_;
  std::chrono::steady_clock::time_point start_;
  std::unique_ptr<shadow::ShadowSpace> space_;
  unsigned space_generation_ = 0;
  GuestAddr syscall_insn_;
  shadow::ForkOptions fork_options_;
  std::vector<Sample> samples_;
  std::vector<Tid> zombies_;
  std::vector<std::string> warnings_;
  double cpu_s_ = 0;        // of the program at the last look, since it began
  double cpu_before_ = -1;  // at the first look
  double looked_at_ = 0;
  double fault_rate_ = 0;       // of the program by itself, a second
  uint64_t faults_at_end_ = 0;  // of the last sample
  double ended_at_ = 0;
  bool interrupted_ = false;
  double sampling_s_ = 0;
};

}  // namespace shadowprof::sample
