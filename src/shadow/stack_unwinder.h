// SPDX-License-Identifier: MIT
//
// The call stack of a frozen thread, from its registers and memory alone: by the unwind tables that
// its modules have mapped (.eh_frame_hdr, .eh_frame), with libunwind. No file is opened, so deleted
// files, other mount namespaces and the vdso are like everything else. The program runs meanwhile:
// what is read is its replica's memory.
//
// Code without unwind tables (what a JIT wrote, some assembly) ends the stack, and it says so: no
// frame is guessed. Where a file's code begins to be executed there is nobody above it, with tables
// or without.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernel/proc.h"
#include "machine/memory_view.h"
#include "machine/registers.h"
#include "trace/record.h"

namespace shadowprof::shadow {

struct CallStack {
  struct Caller {
    GuestAddr address;   // where it goes on
    bool exact = false;  // not a return address: it was interrupted
  };
  std::vector<Caller> callers;  // innermost first
  bool whole = false;           // the last one is the thread's first function
};

class StackUnwinder {
 public:
  StackUnwinder();
  ~StackUnwinder();
  StackUnwinder(const StackUnwinder&) = delete;
  StackUnwinder& operator=(const StackUnwinder&) = delete;

  // For the process that is unwound next. What was learned of code is kept while it is the same.
  void set_mappings(const std::vector<kernel::Mapping>& mappings);
  CallStack unwind(machine::MemorySource& memory, const machine::Registers& registers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The record that begins the trace of a thread in a sample.
std::vector<trace::Word> start_of_trace(uint64_t sample_number, const CallStack* stack);

}  // namespace shadowprof::shadow
