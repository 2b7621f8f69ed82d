// SPDX-License-Identifier: MIT
//
// What we have in one guest address space: the code cache, the thread slots, the translator.
//
//   create()                 nothing is mapped, and no code is known
//   read_code_of(process)    looks what has changed since the last call, drops translations of that
//   map_into(remote)         maps cache and slots into that process
//   open_slot, acquire_slot  memory for a thread
//
// The address space may be that of several processes, one after another or at a time, that are
// copies of one program: they have everything at the same addresses, so what was translated for one
// is there for the next. Full mode and bursts have one process for each AddressSpace, or several
// that share their memory; replicas have many (SpaceOptions::many_processes).
//
// Both arenas are mappings of our memfds, marked MADV_DONTFORK (a fork's child has none of them)
// and MADV_DONTDUMP. The cache lies where the main program's data is within reach of its code. A
// slot that is not open is not accessible in the process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cache/capture_windows.h"
#include "cache/guest_code.h"
#include "cache/slots.h"
#include "emu/code_cache.h"
#include "emu/translate/fragment_finder.h"
#include "emu/translate/translator.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::cache {

inline constexpr size_t kCacheBytes = size_t{128} << 20;
// For programs with little address space.
inline constexpr size_t kSmallCacheBytes = size_t{16} << 20;

// Where little code is executed, as in samples.
inline constexpr size_t kLeastAhead = 16;

struct SpaceOptions {
  emu::Recording recording = emu::Recording::trace;
  emu::TranslatorOptions translator;
  // The program runs natively most of the time, and changes its code while nobody looks: code that
  // no file holds is compared with memory whenever it runs, the rest by read_code_of(). Slots stay
  // attached though nobody uses them: threads come back soon.
  bool native_between = false;
  // Whoever releases a slot has ended, and so has the mapping in which it was open.
  bool many_processes = false;
  bool replaces_fragments = false;  // for windows() (CodeCache::create)
  CallKinds call_kinds = nullptr;
  // Code is captured by this plan in bouts, which have so much of what is executed.
  std::optional<emu::CapturePlan> in_bouts{};
  double share_of_bouts = 0;
  size_t cache_bytes = kCacheBytes;
  const emu::CodeOrder* order = nullptr;  // of an earlier run; outlives the space
  size_t least_ahead = kLeastAhead;       // translated with what is new (FragmentFinder)
};

class AddressSpace {
 public:
  static Result<std::unique_ptr<AddressSpace>> create(trace::BlockTable& table,
                                                      const SpaceOptions& options);

  emu::CodeCache& cache() { return *cache_; }
  emu::Translator& translator() { return translator_; }
  GuestCode& code() { return code_; }
  CaptureWindows& windows() { return windows_; }
  // Makes what it does not find (FragmentFinder). The space and `cost` outlive it.
  emu::FragmentFinder finder(emu::CapturePlan plan, emu::TranslationCost& cost,
                             std::function<void()> make_room = nullptr);

  // From now on the code is that of `process`, which has these mappings, seen through `thread`.
  // Finds a `syscall` instruction there.
  Status read_code_of(Tid process, Tid thread, const std::vector<kernel::Mapping>& mappings);
  // The same for a process that has the same code, as far as is known.
  void serve(Tid process);
  // Drops translations of code that is not what it was when this was last called. If the process's
  // first thread has ended, memory is looked at through this one from now on.
  void look_for_changes(Tid running);
  // After a change of mappings: drops translations of `range`.
  void mappings_changed(GuestRange range);
  // See GuestCode; drops all translations.
  void everything_may_change();
  // One that the program can execute now.
  GuestAddr syscall_insn();

  // Chooses where the cache will be, unless it has a place. The process is the one whose code is
  // read. An Error: there is no place.
  Status place(const std::vector<kernel::Mapping>& mappings);
  // Maps cache and slots into the process whose code is read: where they are in other processes, or
  // else where there is a place. EEXIST: something else is there.
  Status map_into(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings);
  // Takes everything of ours out of the program's memory. No thread may be in the cache.
  Status unmap(ptrace::RemoteSyscalls& remote);
  // Does `range` touch memory that is ours?
  bool is_ours(GuestRange range) const;

  // All that are mapped.
  const std::vector<std::unique_ptr<Slot>>& slots() const { return slots_; }
  // Maps what so many slots need.
  Status make_room(ptrace::RemoteSyscalls& remote, size_t slots);
  // Opens one that nobody uses; maps more if all are used.
  Status open_slot(ptrace::RemoteSyscalls& remote);
  // An open one that nobody uses; null if there is none.
  Slot* acquire_slot();
  void release_slot(Slot* slot);
  bool has_free_slot() const;
  bool is_used() const;

  // In all slots (Slot::draw_bouts).
  void draw_bouts(double share);

  // Calls use(slot, owner, count) for what has been counted, and forgets it.
  using UseCount = std::function<void(const Slot&, const emu::CounterOwner&, uint64_t)>;
  void take_counts(const UseCount& use);
  // The same of one slot.
  void take_counts(Slot& slot, const UseCount& use);
  // Instructions that the slot's thread has counted since this was last called, or its counters
  // were taken. Exact when the thread has stopped at one of our traps.
  uint64_t newly_retired(Slot& slot);
  // All slots' since counters were taken; threads may run meanwhile.
  uint64_t instructions_in_counters();

 private:
  AddressSpace(trace::BlockTable& table, std::unique_ptr<emu::CodeCache> cache, SlotGroup slots,
               const SpaceOptions& options);

  void place_at(GuestAddr at);
  Status map_group(ptrace::RemoteSyscalls& remote, size_t index);
  Result<GuestAddr> map_without_fd(ptrace::RemoteSyscalls& remote, size_t index);
  Status add_slot_group(ptrace::RemoteSyscalls& remote);
  Status give_access(ptrace::RemoteSyscalls& remote, const Slot& slot);
  uint64_t instructions_in(const Slot& slot);  // in its counters
  // What its thread has executed up to branches that its log of pairs has.
  uint64_t logged_instructions(const Slot& slot) const;

  trace::BlockTable& table_;
  SpaceOptions options_;
  Tid process_;
  GuestCode code_;
  std::unique_ptr<emu::CodeCache> cache_;
  emu::Translator translator_;
  std::optional<emu::Foresight> foresight_;
  CaptureWindows windows_;
  std::vector<SlotGroup> groups_;  // the last ones may not be mapped yet
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<uint32_t> weights_;  // instructions for each of a counter's counts
};

}  // namespace shadowprof::cache
