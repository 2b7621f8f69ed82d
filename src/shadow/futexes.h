// SPDX-License-Identifier: MIT
//
// futex(2) among the guest threads of a replica. Threads of the program that slept in the kernel
// when the replica was made are not in it; waking them succeeds and has no effect.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ptrace/remote_memory.h"
#include "shadow/replica_thread.h"

namespace shadowprof::shadow {

class Futexes {
 public:
  Futexes(GuestThreads& threads, ptrace::RemoteMemory& memory)
      : threads_(threads), memory_(memory) {}

  struct Answer {
    bool waits = false;  // the thread sleeps; `value` is unused
    int64_t value = 0;
  };
  // `arguments`: the six of futex(2). Nothing: an operation that is not emulated (priority
  // inheritance, and those that nobody uses).
  std::optional<Answer> call(GuestThread& thread, const std::array<uint64_t, 6>& arguments);

  // The same for futex_wake, futex_wait, futex_requeue and futex_waitv (Linux 5.16 and 6.7).
  std::optional<Answer> call_of_its_own(GuestThread& thread, long nr,
                                        const std::array<uint64_t, 6>& arguments);

  // Wakes up to `count` threads; returns how many.
  int64_t wake(GuestAddr address, int64_t count, uint32_t bits);

 private:
  Answer wait(GuestThread& thread, GuestAddr address, uint32_t expected, uint32_t bits,
              bool has_timeout);
  std::optional<Answer> wait_for_any(GuestThread& thread, GuestAddr list, uint64_t count,
                                     bool has_timeout);
  std::optional<Answer> requeue_listed(GuestAddr list, int64_t wake_count, int64_t move_count);
  int64_t requeue(GuestAddr from, int64_t wake_count, int64_t move_count, GuestAddr to);

  GuestThreads& threads_;
  ptrace::RemoteMemory& memory_;
};

}  // namespace shadowprof::shadow
