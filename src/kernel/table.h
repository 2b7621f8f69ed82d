// SPDX-License-Identifier: MIT
//
// The system call table: what each x86-64 system call would do if a throw-away copy-on-write
// replica of the program made it, and hence what happens to it there. The rows are in
// syscalls.inc; the build fails if <asm/unistd_64.h> has a call without a row.
//
// Unknown is a state: find_syscall() gives null for a number that is not in the table (one that a
// later kernel gained, an x32 call, nonsense), and the caller has to treat it as unsafe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shadowprof::kernel {

enum class SyscallClass : uint8_t {
  benign,  // executed: nothing outside the replica can tell
  output,  // not executed; success is assumed
  input,   // not executed: what it would take has to come from elsewhere, else the sample ends
  misc,    // decided by its arguments
  unsafe,  // ends the sample
};
std::string_view to_string(SyscallClass c);

// What else there is to know about a call. Bits, so that a row can have several.
enum class SyscallFlag : uint16_t {
  none = 0,
  // On success the result is a count whose upper bound the arguments give: bytes, or messages for
  // sendmmsg and recvmmsg. Where success is assumed, the bound is the result. All other calls of
  // class output return 0.
  returns_count = 1 << 0,
  // Takes or gives times, which are virtualised: a replica runs slower than the program.
  time = 1 << 1,
  // Takes or gives process or thread ids, which are virtualised: a replica has its own.
  pid = 1 << 2,
  // May wait for something outside the thread, or for a device.
  blocks = 1 << 3,
  // Changes the address space: translated code may have become stale.
  memory_map = 1 << 4,
  // Reads or changes signal handlers, masks or stacks, or takes or sends signals.
  signal = 1 << 5,
  // Makes or closes descriptors.
  fd = 1 << 6,
  // Makes, ends, replaces or waits for a process or a thread.
  process = 1 << 7,
  // Reads or changes what belongs to the calling thread alone. All guest threads share the one
  // kernel thread of a replica, so this has to be kept per guest thread.
  thread_state = 1 << 8,
};

constexpr SyscallFlag operator|(SyscallFlag a, SyscallFlag b) {
  return static_cast<SyscallFlag>(static_cast<uint16_t>(a) | static_cast<uint16_t>(b));
}

// Names of the bits that are set, in the order above.
std::vector<std::string_view> to_strings(SyscallFlag flags);

struct SyscallRow {
  int nr;
  std::string_view name;
  SyscallClass syscall_class;
  SyscallFlag flags;
  std::string_view reason;  // one line, why it has this class

  // Whether all bits of `f` are set.
  constexpr bool has(SyscallFlag f) const {
    return (static_cast<uint16_t>(flags) & static_cast<uint16_t>(f)) == static_cast<uint16_t>(f);
  }
};

// The row of a number as in orig_rax. Null for every number without one: unsafe.
const SyscallRow* find_syscall(long nr);

// All rows, by number. Numbers have gaps, so this is not indexed by them.
std::span<const SyscallRow> all_syscalls();

}  // namespace shadowprof::kernel
