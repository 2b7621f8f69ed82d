// SPDX-License-Identifier: MIT
//
// What outlives the single shadow: the code cache with all that was translated, and the slots.
// Every replica maps both at the same addresses, so a later one finds everything translated
// already.
//
//   prepare(replica)   looks what code has changed since the last replica, drops its translations
//   map_into(remote)   maps cache and slots into the replica
//   serve(replica)     code is read from that one's memory: before what follows from a stop of it
//   translate_ahead()  between replicas: what the next one will need
//
// Several replicas may live at a time as long as they have the same code: a second one that has not
// is refused by prepare() with EBUSY.
//
// The addresses are chosen at the first replica, or before it for what is translated ahead. If a later one has something else there (the
// program has mapped it meanwhile), map_into fails with EEXIST and the owner starts a new space.
#pragma once

#include <memory>
#include <vector>

#include "emu/code_cache.h"
#include "emu/prefill.h"
#include "emu/translator.h"
#include "inject/capture_windows.h"
#include "inject/guest_code.h"
#include "inject/slots.h"
#include "inject/trace_sink.h"
#include "ptrace/remote_syscall.h"
#include "shadow/stack_unwinder.h"

namespace shadowprof::shadow {

struct SpaceOptions {
  emu::TranslatorOptions translator{};
  // What a collector has seen enough of is captured in one trace buffer of `capture_one_in`, or sample.
  // Null: always. Only with one replica at a time.
  trace::RunMailbox* seen_enough = nullptr;
  uint32_t capture_one_in = 1;
};

class ShadowSpace {
 public:
  static Result<std::unique_ptr<ShadowSpace>> create(trace::BlockTable& table,
                                                     const SpaceOptions& options);

  // `replica` is stopped, and runs the code that its mappings say.
  Status prepare(Tid replica, const std::vector<kernel::Mapping>& mappings);
  Status map_into(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings);
  void serve(Tid replica);
  // While no replica lives: what `program`, which runs, has in its memory is what the next replica
  // will have, or prepare() will find that it does not.
  Status look_at_program(Tid program, const std::vector<kernel::Mapping>& mappings);
  // After that. As emu::Prefill::translate().
  size_t translate_ahead(std::span<const GuestAddr> pcs, size_t limit, emu::CapturePlan plan,
                         emu::TranslationCost& cost);

  // A trace buffer of the replica's was submitted to `sink`, or a sample begins.
  void turn_windows(const inject::TraceSink& sink);

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
  GuestAddr syscall_insn() const { return code_.syscall_insn(); }

 private:
  ShadowSpace(trace::BlockTable& table, std::unique_ptr<emu::CodeCache> cache,
              inject::SlotGroup slots, const SpaceOptions& options);

  void place_at(GuestAddr at);
  Status map_slots(ptrace::RemoteSyscalls& remote);

  trace::BlockTable& table_;
  inject::GuestCode code_;
  std::unique_ptr<emu::CodeCache> cache_;
  emu::Translator translator_;
  emu::Prefill prefill_;
  SpaceOptions options_;
  inject::CaptureWindows windows_;
  inject::SlotGroup group_;
  StackUnwinder unwinder_;
  std::vector<std::unique_ptr<inject::Slot>> slots_;
};

}  // namespace shadowprof::shadow
