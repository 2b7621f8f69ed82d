// SPDX-License-Identifier: MIT
//
// What outlives the single shadow: the code cache with all that was translated, and the slots.
// Every replica maps both at the same addresses, so a later one finds everything translated
// already.
//
//   prepare(replica)   looks what code has changed since the last replica, drops its translations
//   map_into(remote)   maps cache and slots into the replica
//
// The addresses are chosen at the first replica. If a later one has something else there (the
// program has mapped it meanwhile), map_into fails with EEXIST and the owner starts a new space.
#pragma once

#include <memory>
#include <vector>

#include "emu/code_cache.h"
#include "emu/translator.h"
#include "inject/guest_code.h"
#include "inject/slots.h"
#include "ptrace/remote_syscall.h"
#include "shadow/stack_unwinder.h"

namespace shadowprof::shadow {

class ShadowSpace {
 public:
  static Result<std::unique_ptr<ShadowSpace>> create(trace::BlockTable& table,
                                                     emu::TranslatorOptions options);

  // `replica` is stopped, and runs the code that its mappings say.
  Status prepare(Tid replica, const std::vector<kernel::Mapping>& mappings);
  Status map_into(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings);

  // A free slot, or null. After map_into().
  inject::Slot* acquire_slot();
  // Makes the pages behind the slot's trace buffers inaccessible in the replica.
  static Status guard(ptrace::RemoteSyscalls& remote, const inject::Slot& slot);
  void release_slot(inject::Slot* slot);

  emu::CodeCache& cache() { return *cache_; }
  emu::Translator& translator() { return translator_; }
  inject::GuestCode& code() { return code_; }
  StackUnwinder& unwinder() { return unwinder_; }
  // Where a `syscall` instruction is; valid after prepare().
  GuestAddr syscall_insn() const { return syscall_insn_; }

 private:
  ShadowSpace(trace::BlockTable& table, std::unique_ptr<emu::CodeCache> cache,
              inject::SlotGroup slots, emu::TranslatorOptions options);

  Status map_slots(ptrace::RemoteSyscalls& remote);

  inject::GuestCode code_;
  std::unique_ptr<emu::CodeCache> cache_;
  emu::Translator translator_;
  inject::SlotGroup group_;
  StackUnwinder unwinder_;
  std::vector<std::unique_ptr<inject::Slot>> slots_;
  GuestAddr syscall_insn_;
};

}  // namespace shadowprof::shadow
