// SPDX-License-Identifier: MIT
//
// The thread slots (emu/translate/slot_layout.h) of one address space: a memfd that we map as a
// whole, and that the guest maps without access, opening each slot when a thread needs it.
#pragma once

#include <array>
#include <bitset>
#include <csignal>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "emu/code_cache.h"
#include "emu/translate/slot_layout.h"

namespace shadowprof::cache {

inline constexpr size_t kSlotsPerGroup = 8;

// What code of the cache raises: its traps, the guard pages of trace buffers, and records that are
// not aligned where a program wants all to be. What the program does with these must be known.
inline constexpr std::array kOwnSignals = {SIGTRAP, SIGSEGV, SIGBUS};

// What the gateway does with a system call, by its number. Numbers from kListedCalls on, which no
// call has, are treated alike.
using CallKinds = emu::SyscallKind (*)(unsigned number);
inline constexpr unsigned kListedCalls = 512;

// The requests of ptrace(2) that begin to trace somebody.
inline constexpr uint64_t kTraceMe = 0;
inline constexpr uint64_t kTraceAttach = 16;
inline constexpr uint64_t kTraceSeize = 0x4206;

// Mapped at `guest_base` in the guest and at `host` in our process.
struct SlotGroup {
  UniqueFd memfd;
  uint8_t* host = nullptr;
  uint64_t guest_base = 0;

  static Result<SlotGroup> create(emu::Recording recording);
  // In the memfd of `first`, which it makes longer.
  static Result<SlotGroup> create_behind(const SlotGroup& first, size_t index,
                                         emu::Recording recording);
  SlotGroup() = default;
  SlotGroup(SlotGroup&& other) noexcept;
  SlotGroup& operator=(SlotGroup&& other) noexcept;
  ~SlotGroup();
  size_t bytes = 0;
};

// One thread's memory.
struct Slot {
  uint8_t* host = nullptr;
  uint64_t guest = 0;
  bool opened = false;  // the guest may access it
  bool in_use = false;
  bool attached = false;  // its tables are kept equal to the cache's
  bool initialised = false;
  CallKinds call_kinds = nullptr;
  uint64_t retired = 0;  // AddressSpace::newly_retired, up to now
  std::bitset<kListedCalls> watched{};  // calls that are the tracer's, besides those of call_kinds

  emu::StatePage& state() const { return *reinterpret_cast<emu::StatePage*>(host); }
  uint64_t buffer_guest(size_t which) const { return guest + emu::buffer_offset(which); }
  uint32_t* buffer_host(size_t which) const {
    return reinterpret_cast<uint32_t*>(host + emu::buffer_offset(which));
  }
  uint64_t buffer_end(size_t which) const {
    return buffer_guest(which) + limits::kTraceBufferBytes;
  }
  // The page behind a buffer, which a record that does not fit runs into.
  GuestRange guard(size_t which) const {
    const GuestAddr start(buffer_end(which));
    return {start, start + limits::kPageBytes};
  }
  uint64_t* syscall_counts() const {
    return reinterpret_cast<uint64_t*>(host + emu::kSyscallCountsOffset);
  }
  uint64_t* counters(emu::Recording recording) const {
    return reinterpret_cast<uint64_t*>(host + emu::counters_offset(recording));
  }
  const emu::LoggedPair* pair_log() const {
    return reinterpret_cast<const emu::LoggedPair*>(host + emu::kPairLogOffset);
  }
  // Fills the byte tables that the gateway reads.
  void initialise(CallKinds kinds);
  // So much of what is executed is in bouts: from the end of the present gap on, or, of a slot that
  // had none, from the start. 0: as good as nothing.
  void draw_bouts(double share);
  // While true, the gateway hands every system call to the tracer.
  void trap_all_calls(bool all);
  // From now on it hands this one to the tracer, too.
  void watch(unsigned number);
  // No more, while not all calls trap.
  void unwatch(unsigned number);
  // While true, it hands over each call that sets a signal mask; else those that may block what an
  // instruction raises.
  void trap_masks(bool all);
};

}  // namespace shadowprof::cache
