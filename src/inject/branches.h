// SPDX-License-Identifier: MIT
//
// Indirect branches by which threads have come to us, or which their slots have logged: each is
// counted, and gets an entry in the cache where its target begins, so the next one stays there.
#pragma once

#include "inject/engine_options.h"
#include "inject/guests.h"
#include "inject/records.h"
#include "trace/block_table.h"

namespace shadowprof::inject {

class Branches {
 public:
  // All outlive it.
  Branches(const trace::BlockTable& table, const EngineOptions& options, Records& records)
      : table_(table), options_(options), records_(records) {}

  // The thread has branched from `site` to `target`, where that fragment begins.
  void met(GuestThread& t, RunId site, FragmentId fragment, GuestAddr target);
  // What the thread has logged is counted, and gets counters of its own.
  void take_log(GuestThread& t);
  // A branch to an address that no address can be faults itself, and nothing of it has happened.
  // `regs` are the guest's behind it; they become those before it.
  void undo(GuestThread& t, ptrace::Registers& regs, RunId site);

 private:
  BlockId first_block_of(const emu::Fragment& f) const {
    return table_.run(f.longest_run).first_block;
  }
  bool take_back_record(GuestThread& t, RunId& site) const;

  const trace::BlockTable& table_;
  const EngineOptions& options_;
  Records& records_;
};

}  // namespace shadowprof::inject
