// SPDX-License-Identifier: MIT
//
// System calls that wait until a moment at the latest, where time is a virtual clock's. The kernel
// knows real time only: a moment of the virtual clock is turned into one of the real clock, and
// when the kernel says that it has come, the virtual clock goes there.
//
//   timed_wait()     before the call: until when it may wait
//   wait_really()    registers with which the kernel waits as long
//   wait_endlessly() the same, and somebody else ends the wait
//   finish()         behind the call: what is left of the time, as the program is to see it
//
// Where the answer does not tell whether the time is over (io_getevents, io_uring_enter, sockets'
// timeouts) only somebody who ends the wait himself knows: those waits are endless for the kernel.
//
// Not among them: recvmmsg(2), whose timeout the kernel looks at when a message has come, and only
// then, by its own clock. It takes real time, and no virtual.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"
#include "machine/registers.h"
#include "machine/virtual_clock.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

class TimedWait {
 public:
  // Where the thread can be told of other times: so many words of its own memory.
  struct Room {
    GuestAddr address;
    std::span<uint64_t> words;
    GuestAddr nothing;  // a timespec of no length
  };

  // A call that is about to be made with these registers. Nothing: it is none of these, or waits
  // for ever.
  static std::optional<TimedWait> of(const machine::Registers& regs, ptrace::RemoteMemory& memory,
                                     const machine::VirtualClock& clock);
  // A call that may wait for so long, as its socket says (socket_timeout.h).
  static TimedWait on_socket(const machine::Registers& regs, uint64_t length_ns,
                             const machine::VirtualClock& clock);

  // On the virtual clock, since its begin.
  uint64_t until_ns() const { return until_ns_; }
  // What the call returns when its time is over.
  int64_t result_when_over() const { return result_; }
  // False: wait_really() is only for one that is over at once.
  bool result_tells() const { return result_tells_; }

  void wait_really(machine::Registers& regs, const machine::VirtualClock& clock,
                   const Room& room) const;
  // False: it is over at once.
  bool waits(const machine::VirtualClock& clock) const;
  void wait_endlessly(machine::Registers& regs, const Room& room);
  bool is_endless() const { return is_endless_; }
  // `regs`: behind the call. The arguments become those of before.
  void finish(machine::Registers& regs, ptrace::RemoteMemory& memory,
              machine::VirtualClock& clock) const;

 private:
  void give_ring(machine::Registers& regs, const Room& room, GuestAddr timeout) const;

  enum class Remainder : uint8_t { none, always, when_interrupted };

  machine::Registers before_{};
  uint64_t until_ns_ = 0;
  int64_t result_ = 0;
  bool result_tells_ = true;
  bool is_endless_ = false;  // for the kernel
  bool is_moment_ = false;   // of `clock_`, and not a length
  clockid_t clock_ = CLOCK_MONOTONIC;
  Remainder remainder_ = Remainder::none;  // what the kernel leaves at `remainder_at_`
  GuestAddr remainder_at_;
  std::array<uint64_t, 2> given_{};  // what was there
};

// The numbers of calls that may be TimedWaits.
std::span<const unsigned> timed_calls();

}  // namespace shadowprof::inject
