// SPDX-License-Identifier: MIT
#include "ptrace/hardware_breakpoint.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/check.h"
#include "ptrace/trial_child.h"

namespace shadowprof::ptrace {
namespace {

constexpr unsigned kControl = 7;  // the number of the register that turns the others on
constexpr unsigned kStatus = 6;   // of the one that says what has trapped
// There: a breakpoint, an access to these registers, a step, a switch of tasks.
constexpr uint64_t kTraps = 0xe00f;

// The index-th breakpoint: on, for this thread; when; and how many bytes (Intel SDM, volume
// 3, 18.2.4).
uint64_t control_bits(size_t index, HardwareBreakpoint::When when) {
  constexpr uint64_t kWritten = 1, kEightBytes = 2;
  const bool written = when == HardwareBreakpoint::When::written;
  const uint64_t condition = written ? kWritten | kEightBytes << 2 : 0;
  return uint64_t{1} << (2 * index) | condition << (16 + 4 * index);
}

volatile uint64_t watched = 0;  // aligned, as a breakpoint has to be

// The thread sanitizer takes every clone for a fork.
#if defined(__SANITIZE_THREAD__)
constexpr int kCloneFlags = 0;
#else
constexpr int kCloneFlags = CLONE_VM;  // no copy of our memory is made
#endif

// In our memory, with the thread-local data of the thread that waits for it: system calls only.
int write_to_watched(void* parent) {
  if (!TrialChild::be_traced(*static_cast<const pid_t*>(parent))) return 1;
  asm volatile("int3" ::: "memory");
  watched = 1;
  return 0;
}

bool try_hardware_breakpoint() {
  constexpr size_t kStackBytes = 16384;
  alignas(16) std::array<std::byte, kStackBytes> stack;
  pid_t self = ::getpid();
  // No signal to us when it ends.
  TrialChild child(::clone(write_to_watched, stack.data() + stack.size(), kCloneFlags, &self));
  const HardwareBreakpoint write{GuestAddr(reinterpret_cast<uint64_t>(&watched)),
                                 HardwareBreakpoint::When::written};
  return child.await_stop() && set_hardware_breakpoints(Tracee(child.tid()), {&write, 1}) &&
         child.go_on() && child.stopped_for() == SIGTRAP;
}

}  // namespace

bool hardware_breakpoints_trap() {
  static const bool trap = try_hardware_breakpoint();
  return trap;
}

Status set_hardware_breakpoints(Tracee thread, std::span<const HardwareBreakpoint> wanted) {
  SP_CHECK(wanted.size() <= kMostHardwareBreakpoints, "{} breakpoints", wanted.size());
  SP_TRY(thread.try_set_debug_register(kControl, 0));
  uint64_t control = 0;
  for (size_t i = 0; i < wanted.size(); i++) {
    SP_TRY(thread.try_set_debug_register(static_cast<unsigned>(i), wanted[i].at.value));
    control |= control_bits(i, wanted[i].when);
  }
  return control == 0 ? Status{} : thread.try_set_debug_register(kControl, control);
}

void leave_no_debug_registers(Tracee thread) {
  (void)set_hardware_breakpoints(thread, {});
  for (unsigned i = 0; i < kMostHardwareBreakpoints; i++) {
    const Result<uint64_t> address = thread.try_get_debug_register(i);
    if (address && *address != 0) (void)thread.try_set_debug_register(i, 0);
  }
  const Result<uint64_t> status = thread.try_get_debug_register(kStatus);
  if (status && (*status & kTraps)) (void)thread.try_set_debug_register(kStatus, *status & ~kTraps);
}

}  // namespace shadowprof::ptrace
