// SPDX-License-Identifier: MIT
//
// What outlives the single shadow: the code cache with all that was translated, and the slots
// (cache/address_space.h), what is known of its stack frames, and of its pace. Every replica maps
// the first two at the same addresses, so a later one finds everything translated already.
//
//   prepare(replica)   looks what code has changed since the last replica, drops its translations
//   map_into(remote)   maps cache and slots into the replica
//   serve(replica)     code is read from that one's memory: before what follows from a stop of it
//   translate_ahead()  between replicas: what the next one will need
//
// Several replicas may live at a time as long as they have the same code: a second one that has not
// is refused by prepare() with EBUSY.
//
// The addresses are chosen at the first replica, or before it for what is translated ahead. If a
// later one has something else there (the program has mapped it meanwhile), map_into fails with
// EEXIST and the owner starts a new space.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cache/address_space.h"
#include "emu/translate/prefill.h"
#include "ptrace/remote_syscall.h"
#include "shadow/native_pace.h"
#include "shadow/sample_pieces.h"
#include "shadow/stack_unwinder.h"
#include "trace/run_mailbox.h"
#include "trace/trace_sink.h"

namespace shadowprof::shadow {

// From 0 to 1, on average.
struct CaptureShares {
  double windows = 1;  // of the time, that they are open
  double bouts = 0;    // of executions
};

struct SpaceOptions {
  emu::TranslatorOptions translator{};
  // What a collector has seen enough of is captured in windows of a trace buffer, or sample. Null:
  // always. Only with one replica at a time.
  trace::RunMailbox* seen_enough = nullptr;
  CaptureShares shares{};
  std::optional<emu::CapturePlan> in_bouts{};
};

class ShadowSpace {
 public:
  static Result<std::unique_ptr<ShadowSpace>> create(trace::BlockTable& table,
                                                     const SpaceOptions& options);

  // `replica` is stopped, and runs the code that its mappings say.
  Status prepare(Tid replica, const std::vector<kernel::Mapping>& mappings);
  Status map_into(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings) {
    return space_->map_into(remote, mappings);
  }
  void serve(Tid replica) { space_->serve(replica); }
  // While no replica lives: what `program`, which runs, has in its memory is what the next replica
  // will have, or prepare() will find that it does not.
  Status look_at_program(Tid program, const std::vector<kernel::Mapping>& mappings);
  // After that. As emu::Prefill::translate().
  size_t translate_ahead(std::span<const GuestAddr> pcs, size_t limit, emu::CapturePlan plan,
                         emu::TranslationCost& cost);

  // From the next trace buffer on.
  void set_shares(const CaptureShares& shares) {
    options_.shares = shares;
    space_->draw_bouts(shares.bouts);
  }
  // A trace buffer of the replica's was submitted to `sink`, or a sample begins.
  void turn_windows(const trace::TraceSink& sink);

  // A slot, open in the replica. After map_into(). An Error: all are in use.
  Result<cache::Slot*> acquire_slot(ptrace::RemoteSyscalls& remote);
  // Does the tracer see all calls that write to memory, or, as at first, only those that he must?
  void show_calls_that_write(cache::Slot& slot, bool all);
  // The replica has ended, or will make no use of it.
  void release_slot(cache::Slot* slot) { space_->release_slot(slot); }

  emu::CodeCache& cache() { return space_->cache(); }
  cache::GuestCode& code() { return space_->code(); }
  emu::FragmentFinder finder(emu::CapturePlan plan, emu::TranslationCost& cost) {
    return space_->finder(plan, cost);
  }
  StackUnwinder& unwinder() { return unwinder_; }
  NativePace& pace() { return pace_; }
  PieceUnits& piece_units() { return piece_units_; }
  // Where a `syscall` instruction is; valid after prepare().
  GuestAddr syscall_insn() const { return space_->code().syscall_insn(); }

 private:
  ShadowSpace(const trace::BlockTable& table, std::unique_ptr<cache::AddressSpace> space,
              const SpaceOptions& options)
      : space_(std::move(space)), options_(options), pace_(table) {}

  std::unique_ptr<cache::AddressSpace> space_;
  emu::Prefill prefill_;
  SpaceOptions options_;
  StackUnwinder unwinder_;
  NativePace pace_;
  PieceUnits piece_units_;
};

}  // namespace shadowprof::shadow
