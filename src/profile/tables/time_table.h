// SPDX-License-Identifier: MIT
//
// Where the program's threads spent processor time: ticks of a clock that ran with each thread's
// time (clock/cpu_clock.h), or looks at it at random moments. A tick is one observation, so n of N
// ticks are the share n/N with a standard error of sqrt(share * (1 - share) / N).
//
// Time is told by the instruction that a thread executed in user mode when the clock ticked, and
// that the kernel was working for: after a system call, or of a page fault. Time and instructions
// are different things: a load from memory takes as long as hundreds of additions.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct ThreadRow {
  int64_t tid = 0;  // 0: several threads of this name
  int64_t process = 0;
  std::string name;
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  uint64_t ticks = 0;
  // Sums of its rows in the table of code by thread (thread_code_table.h).
  uint64_t instructions = 0;
  uint64_t instructions_error = 0;  // standard error of that
  uint64_t samples = 0;             // that it was recorded in; full mode: as in Coverage
};

struct TimeRow {
  CodeRef at;
  uint32_t thread = 0;  // index into the table of threads
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  auto key() const { return std::tuple(at, thread); }
};

using ThreadTable = std::vector<ThreadRow>;
using TimeTable = std::vector<TimeRow>;  // by place, thread; unique

inline constexpr Columns kTimeColumns{
    code_place<&TimeRow::at>("module", "offset"),
    column<&TimeRow::thread>("thread"),
    column<&TimeRow::user_ns>("user_ns").sum(),
    column<&TimeRow::kernel_ns>("kernel_ns").sum(),
};
inline constexpr TableLayout<TimeRow> kTimeLayout{
    .name = "time", .title = "processor time", .columns = kTimeColumns};

// All of it: more than the rows have where code is not known.
struct ProcessorTime {
  std::string source;       // "cpu-clock", "peeks"; "" where time was not measured
  bool sees_kernel = true;  // false: the split is the kernel's own, and rows have user time only
  double user_s = 0;
  double kernel_s = 0;
  double waiting_s = 0;  // the first thread had no processor
  double queued_s = 0;   // that much of it though it wanted one
  double others_queued_s = 0;  // other threads wanted a processor and had none, added up
  uint64_t ticks = 0;
  uint64_t lost = 0;        // ticks that nobody could keep
  double cycles_per_s = 0;  // of the time stamp counter; 0: not known
  uint64_t slice_us = 0;    // of course_table.h

  bool is_known() const { return !source.empty(); }
  double seconds() const { return user_s + kernel_s; }
  // Half of the 95 % interval of a share.
  double error_of(double share) const;
};

// What is added up over runs, with the names that a profile's file has for it.
struct NamedSeconds {
  const char* name;
  double ProcessorTime::*member;
  bool is_required = true;  // else it is 0 where a file does not have it
};
inline constexpr NamedSeconds kTimeSeconds[] = {
    {"user_s", &ProcessorTime::user_s},
    {"kernel_s", &ProcessorTime::kernel_s},
    {"waiting_s", &ProcessorTime::waiting_s},
    {"queued_s", &ProcessorTime::queued_s},
    {"others_queued_s", &ProcessorTime::others_queued_s, false},
};

struct Profile;

void add_processor_time(ProcessorTime& into, const ProcessorTime& from);

// How long each row of the table of blocks took, user time.
std::vector<uint64_t> time_of_blocks(const Profile& profile);
// The same of each path: of the time of each of its blocks the part that its executions are of the
// block's. A block that is entered by several paths is taken to be as fast in each.
std::vector<uint64_t> time_of_paths(const Profile& profile);
// The part of the time in user mode, in code of known place, that went to code of which no row of
// the table of blocks knows: no sample met it. 0 where time was not measured.
double unmet_time_share(const Profile& profile);
// The part of the time in user mode that went to functions of which a load was timed. 1 where time
// was not measured.
double timed_loads_time_share(const Profile& profile);

}  // namespace shadowprof::profile
