// SPDX-License-Identifier: MIT
//
// Counts how often a replica passes some places natively: direct branches, and other instructions.
// A branch's displacement is changed, in the replica's own copy of the page, so that it leads to a
// few instructions of ours that count, change no register and no flag, and go on to where the
// branch leads. Another instruction makes room for a jump there, and is executed behind ours:
//
//   make_room()   once for each file with such places: two pages within reach of them
//   attach()      the replica is stopped, and goes native then
//   outside()     it has stopped natively: where the guest is, if that is in our instructions
//   detach()      before the replica's code is looked at again
//
// Only code of files that is private and that nobody can write is changed, and only while it is
// what it was. Who has not all of the places counts none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/proc.h"
#include "ptrace/remote_memory.h"
#include "ptrace/remote_syscall.h"
#include "shadow/native_pace.h"

namespace shadowprof::shadow {

// The same places in each call, in the same order; more of them later.
using CountedPlaces = std::span<const CountedPlace>;

class BranchCounter {
 public:
  explicit BranchCounter(Tid replica) : memory_(replica) {}

  bool has_room_for(CountedPlaces places) const;
  // For those that have none. An Error: they cannot have it, now or later.
  Status make_room(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings,
                   CountedPlaces places);
  // Nothing happens where there is no room, or the code is not what it was. An Error: the replica
  // is not to go on.
  Status attach(CountedPlaces places);
  bool is_attached() const { return attached_ > 0; }
  // How often each was passed natively since there is room for it. The replica may run.
  Result<std::vector<uint64_t>> passes();
  // The places are as they were. An Error: the replica is not to go on.
  Status detach();
  Status outside(ptrace::Registers& guest);

 private:
  // A page of code, and behind it one of data, with room for a counter of each place.
  struct Room {
    GuestRange code;  // of the places that it is for
    GuestAddr page;
  };
  struct Counter {
    CountedPlace place;
    GuestAddr code;
  };
  const Room* room_for(const CountedPlace& place) const;
  bool is_unchanged(const CountedPlace& place);

  ptrace::RemoteMemory memory_;
  std::vector<Room> rooms_;
  std::vector<Counter> counters_;  // of the first places, whose instructions are there
  size_t attached_ = 0;            // the first ones of them
};

}  // namespace shadowprof::shadow
