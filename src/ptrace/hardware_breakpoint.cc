// SPDX-License-Identifier: MIT
#include "ptrace/hardware_breakpoint.h"

#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/check.h"

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

// In our memory, with the thread-local data of the thread that waits for it: system calls only. It
// stops by an instruction, as nobody's number has to be right for that.
int write_to_watched(void*) {
  if (::syscall(SYS_ptrace, PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 1;
  asm volatile("int3" ::: "memory");
  watched = 1;
  return 0;
}

// What waitpid(2) says; 0 (an exit) if it fails.
int status_of(pid_t child) {
  int status = 0;
  return TEMP_FAILURE_RETRY(::waitpid(child, &status, __WALL)) == child ? status : 0;
}

bool try_hardware_breakpoint() {
  constexpr size_t kStackBytes = 16384;
  alignas(16) std::array<std::byte, kStackBytes> stack;
  // No signal to us when it ends.
  const pid_t child = ::clone(write_to_watched, stack.data() + stack.size(), CLONE_VM, nullptr);
  if (child < 0) return false;
  const HardwareBreakpoint write{GuestAddr(reinterpret_cast<uint64_t>(&watched)),
                                 HardwareBreakpoint::When::written};
  int status = status_of(child);
  const bool goes_on = WIFSTOPPED(status) &&
                       set_hardware_breakpoints(Tracee(Tid(child)), {&write, 1}) &&
                       ::ptrace(PTRACE_CONT, child, nullptr, nullptr) == 0;
  if (goes_on) status = status_of(child);
  const bool traps = goes_on && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    (void)status_of(child);
  }
  return traps;
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
