// SPDX-License-Identifier: MIT
//
// The memory that each guest thread owns while it runs in the code cache, and the ways in which
// translated code records what it does:
//
//   trace    r15 is the trace cursor: each run that a fragment makes appends a record. The state
//            page is found through the GS base. For collectors that need the order of things.
//   counts   r15 points to the state page: each run increments a counter of its own, and so does
//            each (indirect branch, target) pair. Nothing has to be read while the program runs.
//   both     as trace, and the counters too, so that no collector has to count records.
//
// Everything that translated code needs is at a fixed distance from the state page:
//
//   state page         registers that translated code parks, small byte tables
//   syscall kinds      64 KiB: what the gateway does with system call number `ax`
//   syscall counts     512 KiB of address space: how often number `ax` was called
//   branch table       512 KiB: low 16 bits of an indirect branch's target -> code to check it
//   pair log           8 KiB, when counting: (branch, target) pairs that have no counter yet
//   then, when recording a trace
//     trace buffer 0     kTraceBufferBytes
//     guard page         not accessible: a store that runs into it asks for a drain
//     trace buffer 1     filled while buffer 0 is read
//     guard page
//   and, when counting
//     counters           8 bytes each
//
// The widths of state fields are 8 bytes throughout: a narrow store read back wider would stall.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"

namespace shadowprof::emu {

enum class Recording : uint8_t { trace, counts, both };
constexpr bool has_trace(Recording r) { return r != Recording::counts; }
constexpr bool has_counts(Recording r) { return r != Recording::trace; }

// The first sixteen fields are within reach of a one-byte displacement.
struct StatePage {
  uint64_t guest_r15;         // r15 itself is ours
  uint64_t spill_rcx;         // guest's rcx and rdx during an indirect branch or a code check
  uint64_t spill_rdx;
  uint64_t spill_substitute;  // guest's value of the register that stands in for r15
  uint64_t spill_address;     // register parked to hold a far rip-relative address
  uint64_t spill_time_rax;    // parked around rdtsc
  uint64_t spill_time_rdx;
  uint64_t next_pc;           // guest address after the system call being made
  uint64_t site;              // counts: the indirect branch that is looking for its target
  uint64_t lookup_target;     // counts: where it leads, while an open entry is looked up
  uint64_t log_left;          // counts: free entries of the pair log
  uint64_t leaves;            // not 0: who comes out of a system call goes on natively
  uint64_t guest_gs_base;     // trace: what the way out puts back
  uint64_t cursor;            // trace: when the gateway was last entered
  uint64_t first_stamp;       // of a timed load
  uint64_t empty_stamp;       // and before that
  uint64_t turn_left;         // backward branches until the thread's turn is over
  uint8_t x87_environment[32];  // 28 bytes, as fnstenv stores them (x87_pointer.h)
  uint64_t stops_behind_call; // not 0, and `leaves` too: who comes out of a system call stops
  uint64_t call_time[4];      // what a system call is told instead of the program's own moment
  uint64_t turn_back;         // where translated code goes on when the turn has come again
  uint64_t bout_gap;          // executions until the next bout begins; 0: one is going on
  uint64_t bout_left;         // executions until it ends: trace::kBoutExecutions before it begins
  uint64_t bout_number;       // modulo kBoutGaps
  uint64_t pace_from;         // time stamps around the pace check (CodeCache::pace_check_address)
  uint64_t pace_to;
  uint64_t pace_next;         // where it goes on
  uint64_t reserved[95];
  uint8_t mmap_prot_plain[256];   // 1: prot byte without PROT_EXEC
  uint8_t mmap_flags_plain[256];  // 1: flags byte without MAP_FIXED
  uint8_t open_flags_plain[256];  // 1: flags byte of an open for reading only
  uint8_t trace_requests_plain[256];  // 1: low byte of a request of ptrace(2) that begins nothing
  uint8_t signals_plain[256];         // 1: low byte of a signal whose action need not be known
  uint32_t bout_gaps[256];  // what bout_gap becomes at the end of a bout, one after the other
  uint8_t masks_plain[3][256];  // 1: such a byte of a signal mask (kMaskBytes) need not be known
};
static_assert(sizeof(StatePage) <= limits::kPageBytes);
inline constexpr size_t kAddressField = offsetof(StatePage, spill_address);
static_assert(offsetof(StatePage, mmap_prot_plain) == 1024);

// Those that have bits of what instructions raise.
inline constexpr std::array<uint8_t, 3> kMaskBytes{0, 1, 3};
inline constexpr size_t kBoutGaps = sizeof(StatePage::bout_gaps) / sizeof(uint32_t);
static_assert(kBoutGaps == 256, "what a byte counts to");

// The log is filled from its last entry down to entry 1.
struct LoggedPair {
  uint32_t site;   // RunId
  uint32_t block;  // BlockId
};
inline constexpr uint64_t kLogEntries = 2 * limits::kPageBytes / sizeof(LoggedPair) - 1;

// What the gateway does with a system call.
enum class SyscallKind : uint8_t {
  tracer = 0,   // stop: it changes mappings, signals or threads in a way that we must see
  execute = 1,  // the thread makes it itself
  mmap = 2,     // itself, unless it maps code or replaces a mapping
  openat = 3,   // itself, unless it opens for writing
  ptrace = 4,   // itself, unless it begins to trace
  action = 5,   // itself (rt_sigaction), unless it is about a signal whose action must be known
  mask = 6,     // itself (rt_sigprocmask), unless the new mask must be known
};

// When tracing, an indirect branch parks rcx and rdx in the buffer, this far behind the cursor (as
// it is after the branch's record): shorter code than through GS. The next record overwrites them.
inline constexpr uint32_t kCursorSpillRcx = 8;
inline constexpr uint32_t kCursorSpillRdx = 16;

inline constexpr size_t kSyscallKindsOffset = limits::kPageBytes;
inline constexpr size_t kSyscallKindsBytes = 65536;
inline constexpr size_t kSyscallCountsOffset = kSyscallKindsOffset + kSyscallKindsBytes;
inline constexpr size_t kSyscallCountsBytes = 65536 * sizeof(uint64_t);
inline constexpr size_t kBranchTableOffset = kSyscallCountsOffset + kSyscallCountsBytes;
inline constexpr size_t kBranchTableEntries = 65536;
inline constexpr size_t kBranchTableBytes = kBranchTableEntries * sizeof(uint64_t);
inline constexpr size_t kPairLogOffset = kBranchTableOffset + kBranchTableBytes;
inline constexpr size_t kPairLogBytes = 2 * limits::kPageBytes;
inline constexpr size_t kDataOffset = kPairLogOffset + kPairLogBytes;
inline constexpr size_t kBufferOffset0 = kDataOffset;
inline constexpr size_t kBufferStride = limits::kTraceBufferBytes + limits::kPageBytes;
inline constexpr size_t kBufferCount = 2;
// A slot takes about the same address space, with trace buffers or without.
constexpr size_t max_counters(Recording recording) {
  return recording == Recording::both ? size_t{1} << 20 : size_t{1} << 21;
}

constexpr size_t counters_offset(Recording recording) {
  return kDataOffset + (has_trace(recording) ? kBufferCount * kBufferStride : 0);
}
constexpr size_t counter_offset(Recording recording, uint32_t index) {
  return counters_offset(recording) + index * sizeof(uint64_t);
}
constexpr size_t counters_bytes(Recording recording) {
  return has_counts(recording) ? max_counters(recording) * sizeof(uint64_t) : 0;
}
constexpr size_t slot_bytes(Recording recording) {
  return counters_offset(recording) + counters_bytes(recording);
}
static_assert(slot_bytes(Recording::trace) % limits::kPageBytes == 0);
static_assert(slot_bytes(Recording::counts) % limits::kPageBytes == 0);
static_assert(slot_bytes(Recording::both) % limits::kPageBytes == 0);
static_assert(slot_bytes(Recording::both) < INT32_MAX);

constexpr size_t buffer_offset(size_t which) { return kBufferOffset0 + which * kBufferStride; }

// Index into the branch table: what `movzx edx, cx` leaves.
constexpr size_t branch_index(uint64_t guest_target) { return guest_target & 0xffff; }

}  // namespace shadowprof::emu
