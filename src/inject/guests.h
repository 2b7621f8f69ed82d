// SPDX-License-Identifier: MIT
//
// The threads that the engine owns, and their processes. Whoever needs to know who else there is
// gets these; the engine alone adds and removes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "inject/guest_process.h"
#include "inject/guest_thread.h"

namespace shadowprof::inject {

struct Guests {
  std::unordered_map<Tid, std::unique_ptr<GuestThread>> threads;
  std::map<Tid, std::unique_ptr<GuestProcess>> processes;

  // Null: it is not the engine's.
  GuestThread* find(Tid tid) const;
  std::vector<GuestThread*> threads_of(const GuestProcess& process) const;
  bool has_threads(const GuestProcess& process) const;
  // One of its threads is in an execve.
  bool is_executing(const GuestProcess& process) const;
  // The thread of the process that knows itself by that number; 0: none does.
  Tid thread_of(const GuestProcess& process, int id) const;
  // Where every thread is, for messages about broken invariants.
  std::string describe() const;
};

}  // namespace shadowprof::inject
