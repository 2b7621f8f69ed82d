// SPDX-License-Identifier: MIT
//
// The system call table: what happens to each x86-64 system call that a throw-away copy-on-write
// replica of the program makes. The rows are in syscalls.inc, and each names its handler; the
// handlers are in syscall_handlers.inc, and shadow/system_calls.h has their functions. The build
// fails if <asm/unistd_64.h> has a call without a row, if a row names no handler, and if a handler
// has no function.
//
// Unknown is a state: find_syscall() gives null for a number that is not in the table (one that a
// later kernel gained, an x32 call, nonsense), and the caller has to treat it as unsafe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shadowprof::kernel {

// A handler's kind; profiles count calls by it.
enum class SyscallClass : uint8_t {
  benign,  // made, or answered as if: nothing outside the replica can tell
  output,  // does not leave the replica: success is assumed, or a file of its own takes it
  input,   // what it would take has to come from elsewhere, else the sample ends
  misc,    // decided by its arguments
  unsafe,  // ends the sample, or a thread of it, apart from forms that the handler's note names
};
std::string_view to_string(SyscallClass c);

// All that a handler may do with a call. Bits. That the replica opens a file of the program's when
// it first uses it is not counted.
enum class SyscallEffects : uint8_t {
  made = 1 << 0,      // the replica makes it, or others in its place
  answered = 1 << 1,  // it is not made; the program in the replica goes on with an answer of ours
  ends = 1 << 2,      // the sample ends
};
constexpr SyscallEffects operator|(SyscallEffects a, SyscallEffects b) {
  return static_cast<SyscallEffects>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr bool has(SyscallEffects set, SyscallEffects one) {
  return (static_cast<uint8_t>(set) & static_cast<uint8_t>(one)) != 0;
}

enum class SyscallHandler : uint8_t {
#define HANDLER(name, ...) name,
#include "kernel/syscall_handlers.inc"
#undef HANDLER
};

// What is kept of a call that the program makes while a replica lives, so that the replica's same
// call can be answered with it: what the kernel wrote. The descriptor, or what else the first
// argument is, tells which call is the same; where something else does, too, it is named here.
enum class KeptCall : uint8_t {
  not_kept,
  nothing,        // it writes nothing
  path,           // nothing; the second argument tells, the first is a pointer
  command,        // nothing; the second argument tells, too
  request,        // what the ioctl in the second argument writes; that tells, too
  buffer,         // as many bytes as the result says; the third argument tells, too
  parts,          // the same, in a vector
  sender,         // a buffer and an address; the third argument tells, too
  message,        // struct msghdr and what it names
  address,        // an address with its length
  option,         // an option's value with its length
  events,         // as many struct epoll_event as the result says
  polled,         // the second argument's number of struct pollfd, and that tells
  sets,           // three sets of the first argument's number of descriptors
  sets_and_time,  // and what is left of the time
};

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
  // Makes or closes descriptors, other than returning one.
  fd = 1 << 6,
  // Makes, ends, replaces or waits for a process or a thread.
  process = 1 << 7,
  // Reads or changes what belongs to the calling thread alone. All guest threads share the one
  // kernel thread of a replica, so this has to be kept per guest thread.
  thread_state = 1 << 8,
  // Its result is a new descriptor.
  returns_fd = 1 << 9,
  // Neither reads nor writes the caller's memory.
  in_registers = 1 << 10,
};

constexpr SyscallFlag operator|(SyscallFlag a, SyscallFlag b) {
  return static_cast<SyscallFlag>(static_cast<uint16_t>(a) | static_cast<uint16_t>(b));
}

// Names of the bits that are set, in the order above.
std::vector<std::string_view> to_strings(SyscallFlag flags);

struct SyscallRow {
  int nr;
  std::string_view name;
  SyscallHandler handler;
  SyscallClass syscall_class;  // of the handler
  SyscallEffects effects;      // of the handler
  std::string_view note;       // of the handler; may be empty
  SyscallFlag flags;
  KeptCall kept;
  std::string_view reason;  // one line, why it has this handler

  // Whether all bits of `f` are set.
  constexpr bool has(SyscallFlag f) const {
    return (static_cast<uint16_t>(flags) & static_cast<uint16_t>(f)) == static_cast<uint16_t>(f);
  }
};

// What happens to it, in words: "made or ends the sample: regular files only".
std::string describe(const SyscallRow& row);
std::vector<std::string_view> to_strings(SyscallEffects effects);

// The row of a number as in orig_rax. Null for every number without one: unsafe.
const SyscallRow* find_syscall(long nr);

// All rows, by number. Numbers have gaps, so this is not indexed by them.
std::span<const SyscallRow> all_syscalls();

}  // namespace shadowprof::kernel
