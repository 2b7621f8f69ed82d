// SPDX-License-Identifier: MIT
//
// The system calls by which a program asks for the time, answered by its virtual clock.
//
// What is not: clocks of other processes, adjtimex(2) and times of files. Timers: timer_calls.h.
// What children have used (wait4(2), waitid(2)) is their largest size, as getrusage(2) has it.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"
#include "machine/registers.h"
#include "machine/virtual_clock.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

struct TimeCall {
  const machine::Registers& regs;  // before the call
  ptrace::RemoteMemory& memory;
  machine::VirtualClock& clock;
  uint64_t began_ns = 0;  // the process, in worked_ns()
  Tid process;

  long number() const { return static_cast<int>(regs.rax); }
};

// The processor time of this process, or of a thread of it.
bool is_own_processor_clock(Tid process, clockid_t clock);

std::span<const unsigned> time_calls();
bool is_time_call(long number);
// What it returns. Nothing: the kernel is to answer it.
std::optional<int64_t> answer_time_call(const TimeCall& call);
// The kernel has told of the resources that were used (getrusage(2)), and without an error.
void mend_resource_usage(const TimeCall& call);

// Where a wait for a child is to tell what that has used. The kernel may wait, so it is mended when
// the call is over.
class ChildUsage {
 public:
  // For a call that is about to be made. Nothing: it is no such wait.
  static std::optional<ChildUsage> of(const machine::Registers& regs, ptrace::RemoteMemory& memory);
  // `result`: of the call.
  void mend(int64_t result, ptrace::RemoteMemory& memory) const;

 private:
  GuestAddr place_;
  rusage before_{};
};

std::span<const unsigned> child_waits();

}  // namespace shadowprof::inject
