// SPDX-License-Identifier: MIT
//
// Children that are about to begin. A parent's event tells what its child is; the child's own first
// stop comes before that or after it.
//
//   announce(child, what it is)  ─┐
//                                 ├─ the later of the two ─▶ it is known, and can be started
//   come(child)                  ─┘
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/types.h"
#include "inject/fixed/virtual_machine.h"
#include "inject/guest_process.h"

namespace shadowprof::inject {

struct NewChild {
  GuestProcess* parent = nullptr;
  bool shares_memory = false;
  bool is_thread = false;
  uint64_t next_pc = 0;
  uint64_t guest_r15 = 0;
  uint64_t guest_gs_base = 0;
  ptrace::SignalMask blocked = 0;
  GuestAddr rseq{};
  VirtualMachine::Share machine_share{};  // of a new process
};

class NewChildren {
 public:
  // One that has come already is among those that are take_ready().
  void announce(Tid child, const NewChild& info);
  // What it is. Nothing: its parent will tell.
  std::optional<NewChild> come(Tid child);
  // Where a parent's event is handled may be in the middle of a flush, so children that had come
  // before are not started there.
  std::vector<Tid> take_ready();
  // Is it among those? It is not any more.
  bool remove_ready(Tid child);
  bool is_announced(Tid child) const { return announced_.contains(child); }
  std::optional<NewChild> take(Tid child);
  // It has ended.
  void forget(Tid child);
  const std::unordered_map<Tid, NewChild>& announced() const { return announced_; }
  // Those that have come, and of which nobody has told yet.
  const std::unordered_set<Tid>& early() const { return early_; }

 private:
  std::unordered_map<Tid, NewChild> announced_;
  std::unordered_set<Tid> early_;  // come, and not yet announced
  std::vector<Tid> ready_;         // both
};

}  // namespace shadowprof::inject
