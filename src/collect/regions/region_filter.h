// SPDX-License-Identifier: MIT
//
// Lets through what happens within a region of the program, and nothing else: the filter stands in
// front of the collectors, and is one itself.
//
//   trace buffers ──▶ RegionFilter ──▶ EdgeCollector, PathCollector, ... ──▶ profile
//                        ▲    │
//   sample/region_code ──┘    └──▶ RegionCounts: entries, executions within, instructions of all
//   (which blocks are entries)
//
// A region is open or closed in each thread by itself. It is one of three kinds:
//
//   a function   Open from the run that begins at its entry, to the return from that activation.
//                What it calls is within, and so are activations of itself (recursion).
//   between      Open from the run that begins at the entry of one function, to the one that begins
//                at the entry of another, or the thread's end. What comes to the first one again
//                while it is open changes nothing; where both are one function, each entry is an
//                end and a beginning.
//   marks        Open behind a begin mark, to the end mark that belongs to it
//                (include/shadowprof/marks.h). They may be nested.
//
// Records are whole runs, and runs begin at entries and end behind calls, returns and marks, since
// the translator does not go through jumps here. So the border of a region is always one of runs,
// and counts are exact to the instruction.
//
// How the end of a function's activation is known: each run's first slot is the stack pointer at
// its begin (emu::CapturePlan::stack_pointer). At a function's entry it points to the return
// address; while the activation lives, it is never above that. So a region closes with the first
// run that begins above, whichever way it got there: a return, longjmp(3), an exception.
//
// A stack pointer that was loaded, and not counted up or down, may be on another stack: swapcontext
// and its like. What is executed there is not within. The region opens again where the program
// comes back to the place that it has left. Stacks that lie closer together than kOtherStack_bytes
// are told apart when the other one is the higher one only.
//
// A signal handler that interrupts a region is within, on whichever stack it runs. One that
// interrupts something else is not, but may enter the region itself.
//
// To the collectors a region is a sample: what is open when it ends, ends there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/reserved_array.h"
#include "collect/collector.h"

namespace shadowprof::collect {

// Written while a trace is read; complete after the last chunk.
struct RegionCounts {
  uint64_t entries = 0;               // of the outermost activations, or begin marks
  uint64_t instructions = 0;          // within
  uint64_t program_instructions = 0;  // in all records
  uint64_t system_calls = 0;          // within
  uint64_t unmatched_marks = 0;       // end marks that end nothing
  uint64_t corrupt_chunks = 0;
  std::vector<uint64_t> executions;   // within, by run id
};

enum class RegionKind : uint8_t { function, between, marks };

// What the entry of a function does to a region, in one number.
inline constexpr uint8_t kOpensRegion = 1;
inline constexpr uint8_t kClosesRegion = 2;

struct RegionFilterOptions {
  RegionKind kind = RegionKind::function;
  // By block id: of those at the entry of a function what it does. Filled in before an id is in a
  // trace. Marks need none.
  const ReservedArray<uint8_t>* entries = nullptr;
};

// `counts` outlives the filter.
std::unique_ptr<Collector> make_region_filter(const trace::BlockTable& table,
                                              RegionFilterOptions options,
                                              std::vector<std::unique_ptr<Collector>> collectors,
                                              RegionCounts& counts);

}  // namespace shadowprof::collect
