// SPDX-License-Identifier: MIT
//
// What we have in one guest address space: the code cache, the thread slots, the translator.
//
// Both arenas are mappings of our memfds, marked MADV_DONTFORK (a fork's child has none of them)
// and MADV_DONTDUMP. The cache lies where the main program's data is within reach of its code.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "emu/code_cache.h"
#include "emu/translator.h"
#include "inject/capture_windows.h"
#include "inject/guest_code.h"
#include "inject/slots.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/tracee.h"

namespace shadowprof::inject {

struct SpaceOptions {
  emu::Recording recording = emu::Recording::trace;
  emu::TranslatorOptions translator;
  // The program runs natively most of the time, and changes its code while nobody looks: code that
  // no file holds is compared with memory whenever it runs, the rest by look_for_changes().
  bool native_between = false;
};

class AddressSpace {
 public:
  // `thread`, of `process`, stands at a stop from which it can make system calls; nothing of ours
  // is mapped yet. Here and below `options` are those with which it is traced, and `deferred` gets signals
  // to be given back (ptrace/remote_syscall.h).
  // The program will map memory of its own at `avoided`: the code cache goes elsewhere.
  static Result<std::unique_ptr<AddressSpace>> create(ptrace::Tracee thread, Tid process,
                                                      trace::BlockTable& table,
                                                      const SpaceOptions& space_options,
                                                      ptrace::TraceOptions options,
                                                      std::vector<siginfo_t>& deferred,
                                                      GuestRange avoided = {});

  emu::CodeCache& cache() { return *cache_; }
  emu::Translator& translator() { return translator_; }
  GuestCode& code() { return code_; }
  CaptureWindows& windows() { return windows_; }
  // One that the program can execute now.
  GuestAddr syscall_insn();

  // Maps, through `thread`, which is stopped, what so many slots need.
  Status make_room(ptrace::Tracee thread, ptrace::TraceOptions options, size_t slots,
                   std::vector<siginfo_t>& deferred);
  bool has_free_slot() const;
  // A slot for `thread`, which must be stopped if a new one has to be opened.
  Result<Slot*> acquire_slot(ptrace::Tracee thread, ptrace::TraceOptions options,
                             std::vector<siginfo_t>& deferred);
  void release_slot(Slot* slot);
  // Takes everything of ours out of the program's memory. No thread may be in the cache.
  Status unmap(ptrace::RemoteSyscalls& remote);
  // Does `range` touch memory that is ours?
  bool is_ours(GuestRange range) const;
  // The guard page that `address` lies in, as the slot whose buffer ends there.
  const std::vector<std::unique_ptr<Slot>>& slots() const { return slots_; }

  // Calls use(owner, count) for what has been counted, and forgets it.
  void take_counts(const std::function<void(const emu::CounterOwner&, uint64_t)>& use);
  // After a change of mappings: drops translations of `range`.
  void mappings_changed(GuestRange range);
  // Drops translations of code that is not what it was when this was last called. If the process's
  // first thread has ended, memory is looked at through this one from now on.
  void look_for_changes(Tid running);
  // See GuestCode; drops all translations.
  void everything_may_change();

 private:
  AddressSpace(Tid process, trace::BlockTable& table, std::unique_ptr<emu::CodeCache> cache,
               const SpaceOptions& options)
      : process_(process),
        code_(process, table),
        cache_(std::move(cache)),
        translator_(*cache_, table, code_, options.translator),
        windows_(*cache_, translator_, table),
        keeps_slots_(options.native_between) {}

  Status map_cache(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings);
  Result<GuestAddr> map_without_fd(ptrace::RemoteSyscalls& remote, SlotGroup& group);
  Status add_slot_group(ptrace::RemoteSyscalls& remote);
  Status open_slot(ptrace::RemoteSyscalls& remote, Slot& slot);

  Tid process_;
  GuestCode code_;
  std::unique_ptr<emu::CodeCache> cache_;
  emu::Translator translator_;
  CaptureWindows windows_;
  bool keeps_slots_;  // attached, though nobody uses them: threads come back soon
  std::vector<SlotGroup> groups_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace shadowprof::inject
