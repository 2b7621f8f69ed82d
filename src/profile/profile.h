// SPDX-License-Identifier: MIT
//
// The profile: everything that is known after a run, and what the profile file holds. Collectors
// fill the tables, the driver of the run fills run, coverage, overhead and syscalls, symbols give
// the functions; then, in this order:
//
//   attribute_functions(profile, names)   self, inclusive, ... of each function that executed
//   profile.hotlists = compute_hotlists(profile, limit, lines)
//   check_consistency(profile)            conservation of instructions, ranges of all indices
//   write_profile(profile, path)          json_file.h
//
// One table per file; its meaning stands above its row type, and its columns below. tables.h lists
// them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profile/confidence.h"
#include "profile/hotlists/hotlists.h"
#include "profile/sample_groups.h"
#include "profile/tables/function_table.h"
#include "profile/tables/inlined_table.h"
#include "profile/tables/module_table.h"
#include "profile/tables/tables.h"
#include "profile/tables/timeline.h"

namespace shadowprof::profile {

inline constexpr const char* kSchema = "shadowprof.profile";
inline constexpr uint32_t kVersion = 1;

struct Host {
  std::string cpu;
  std::string kernel;
  uint32_t cores = 0;
  std::optional<LatencyCalibration> latency;  // only where loads were timed
};

struct Exit {
  bool signalled = false;
  int value = 0;  // the exit status, or the signal that killed the program
};

// A run whose counts a merged profile holds.
struct MergedRun {
  std::string file;  // as it was named when it was merged
  std::vector<std::string> command;
  std::string started;
  uint64_t instructions = 0;  // profiled in the run, not multiplied
  uint64_t weight = 1;        // how often its counts were added
  uint64_t instructions_total = 0;  // that it executed; 0: not known
  auto operator<=>(const MergedRun&) const = default;
};

// A program that the profiled process has executed.
struct Image {
  std::vector<std::string> command;
  double at_s = 0;  // since the run began
  bool operator==(const Image&) const = default;
};
inline constexpr size_t kMostImages = 64;

// What a run was told while it went on (shadowprof ctl).
struct SettingChange {
  double at_s = 0;      // since the run began
  std::string setting;  // "values", "latency", "freq", "sample-size", "max-overhead"
  std::string value;    // as it held from then on
  bool operator==(const SettingChange&) const = default;
};
inline constexpr size_t kMostChanges = 64;

// Sampling began when the program was first seen in a function (--start-at).
struct StartAt {
  std::string function;        // as it was asked for
  std::optional<double> at_s;  // since the program was there; nothing: it was never seen
  bool operator==(const StartAt&) const = default;
};

// The part of the program that a profile is about: what was executed between a function's entry and
// its return, between marks, or from one function's entry to another's. As it was asked for.
struct Region {
  std::string within;  // a function's name, or "marks"; empty: from one to the other
  std::string from;
  std::string to;
  std::vector<std::string> functions;  // that have these names, and were entered; of marks none
  uint64_t entries = 0;                // activations within one another are one
  uint64_t program_instructions = 0;   // within and without
  bool is_marks() const { return within == "marks"; }
  bool is_between() const { return within.empty(); }
};

// Sampling ended because what matters was known as exactly as was asked for (precision.h).
struct UntilError {
  double limit = 0;        // half of an interval, as a share
  double reached = 0;      // of the widest one, when that was looked at
  uint64_t functions = 0;  // that matter
  bool by_time = false;
};

struct Run {
  std::vector<std::string> command;
  int64_t pid = 0;
  std::string mode;    // "full", "shadow"
  std::string engine;  // "translator", "step"
  std::map<std::string, std::string> options;
  uint64_t seed = 0;
  Host host;
  std::string started;  // UTC, ISO 8601: "2025-01-31T12:00:00Z"
  double duration_s = 0;
  std::optional<Exit> exit;       // absent: the program was still running
  std::vector<MergedRun> merged;  // empty: one run
  // In order, the first kMostImages; empty: the process was one program all the time. The tables
  // hold the counts of all of them.
  std::vector<Image> images;
  std::optional<Region> region;  // nothing: the profile is about all of the program
  std::optional<UntilError> until_error;  // nothing: it ended for another reason
  std::vector<SettingChange> changes;     // in order, the first kMostChanges
  std::optional<StartAt> start_at;        // nothing: it began at once, or after a delay
};

// Is the kind one that the run was to collect, as far as its options are known?
bool was_asked_for(const Run& run, std::string_view kind);

// Counts by name.
using Counts = std::map<std::string, uint64_t>;
void add_counts(Counts& into, const Counts& from);

// Counts that an object of the file has under this name; required, or left out where there are
// none.
template <typename Object>
struct NamedCounts {
  const char* name;
  Counts Object::*member;
  bool required = true;
};

// Samples that two engines have run, to see whether they agree.
struct Verified {
  uint64_t samples = 0;
  uint64_t instructions = 0;  // that agreed
  uint64_t diverged = 0;      // samples
};
inline constexpr Columns kVerifiedColumns{
    column<&Verified::samples>("samples").sum(),
    column<&Verified::instructions>("instructions").sum(),
    column<&Verified::diverged>("diverged").sum(),
};

// A process of the program that went on unprofiled.
struct EndedEarly {
  double at_s = 0;                       // since the run began
  std::optional<uint64_t> instructions;  // profiled up to then, where that is known
  std::string why;                       // one sentence without a full stop
};
inline constexpr size_t kMostEndedEarly = 16;
// With which `why` ends where the user wanted it so.
inline constexpr const char* kByNoExec = "(--no-exec)";

struct Coverage {
  uint64_t samples = 0;                // full mode: 1 for each thread
  uint64_t instructions_profiled = 0;  // in trace records that were read
  uint64_t instructions_total = 0;     // that the program executed
  bool estimated = false;              // of instructions_total; see ended_early
  // The samples do different things, and it is not known how fast the program is at each. Shares of
  // instructions take it for equally fast, so there are no cycles per instruction.
  bool assumed_speeds = false;
  // Too little was profiled to estimate instructions_total: the program is taken for as fast as
  // many are. There are no cycles per instruction then either.
  bool assumed_total = false;
  uint64_t attributed = 0;  // to rows of the block table
  Counts ended;             // samples by the reason for which they ended
  Counts dropped;           // instructions by the reason for which no row has them
  Counts events;            // other things that could not be counted, by what
  PathCounts paths;
  AccessCounts accesses;
  StreamCounts streams;
  std::optional<Verified> verified;
  // The first kMostEndedEarly. Not empty: nobody knows how much the program executed, and
  // instructions_total is what it executed at least.
  std::vector<EndedEarly> ended_early;

  // Nothing: not known.
  std::optional<double> share() const;
  uint64_t dropped_instructions() const;
};
inline constexpr NamedCounts<Coverage> kCoverageCounts[] = {
    {"dropped", &Coverage::dropped}, {"ended", &Coverage::ended}, {"events", &Coverage::events}};

// How long the program was stopped for samples, seconds.
struct Pauses {
  double total = 0;
  double max = 0;
  double p50 = 0;
  double p99 = 0;
};

struct Overhead {
  double budget_share = 0;     // of the program's time; 0 in full mode
  double estimated_share = 0;  // cost to the program
  Pauses pause_s;
  uint64_t forks = 0;
  uint64_t extra_faults = 0;   // page faults that the program took because of replicas
  double engine_cpu_s = 0;     // our own CPU time in tracing and translating
  double collector_cpu_s = 0;  // in collectors
  double program_cpu_s = 0;    // of the program, under us
  // What of it processes had that it started and that are not in the profile: about, and 0 where it
  // is no large part.
  double unfollowed_cpu_s = 0;
  uint64_t translated_blocks = 0;
  double translation_s = 0;
  Counts stops;  // of the program's threads, by reason
  // What was spent, in seconds and by cause, and how often each reason chose a step (plan/step.h);
  // empty in full mode.
  std::map<std::string, double> by_cause;
  Counts steps;
  // What was done ahead of samples, and what decided when they were taken; empty in full mode.
  Counts sampling;
  Timeline timeline;  // empty in full mode, and of several runs
};
inline constexpr NamedCounts<Overhead> kOverheadCounts[] = {
    {"stops", &Overhead::stops},
    {"steps", &Overhead::steps, false},
    {"sampling", &Overhead::sampling, false}};

struct SyscallCount {
  uint64_t count = 0;
  uint64_t ended = 0;  // samples that it ended
};
inline constexpr Columns kSyscallCountColumns{
    column<&SyscallCount::count>("count").sum(),
    column<&SyscallCount::ended>("ended").sum(),
};

struct Syscalls {
  Counts by_class;
  std::map<std::string, SyscallCount> by_name;
};

struct Profile {
  std::string tool_version;
  Run run;
  Coverage coverage;
  Overhead overhead;
  Syscalls syscalls;
  ModuleTable modules;
  FunctionTable functions;
  InlinedTable inlined;
  ProcessorTime time;
  ThreadTable threads;  // those that the clock has seen, or whose code is known
  ProbeList probes;     // the user's
  PluginList plugins;   // likewise
  Hotlists hotlists;
  Tables tables;
  Confidence confidence;
  // In a baseline (file/baseline.h): how many rows of which tables it has not. Empty: a profile.
  Counts left_out;
  SampleGroups groups;           // until functions are known,
  ContextGroups context_groups;  // and these of tables.contexts
};

// Adds another address space's (or run's) coverage counts, modules and tables to `into`; blocks are
// cut again so that the result is canonical. Functions and hotlists of `into` are out of date then.
// `from` has no tables after that.
void add_tables(Profile& into, Profile& from);
// The same where the caller knows which of `into`'s modules each of `from`'s is.
void add_tables(Profile& into, Profile& from, const std::vector<uint32_t>& module_in_into);

// Keeps those of `names` (any order; of profile.modules) that executed or called what did, with
// their figures. Where names overlap, a function ends where the next one begins. Code without a
// name belongs to nothing. Contexts become those of functions.
void attribute_functions(Profile& profile, FunctionTable names);

// The function that contains a place, by binary search; null where there is none.
const Function* find_function(const FunctionTable& functions, CodeRef at);

// An error names the first rule that is broken, as far as nothing was left out: attributed +
// dropped = profiled; the block table adds up to attributed; contexts have no more than was
// profiled, inlined functions no more than is known of inlining; a profile that is exact covers
// everything; indices are in range.
Status check_consistency(const Profile& profile);

}  // namespace shadowprof::profile
