// SPDX-License-Identifier: MIT
//
// The system calls by which a program learns of the machine that it runs on, answered for one
// machine that is the same on every host (machine/machine_facts.h, machine/cpu_model.h): one core,
// 4 GB of memory, an old kernel, random bytes that are the same in each run.
//
// Whatever is not answered here, the kernel answers. A call that is wrong fails as the kernel's
// would, and nothing waits: what may wait is left to the kernel.
//
// Users are user_calls.h's, clocks time_calls.h's. What is not answered: process and thread ids,
// which signals, /proc and futexes use too; the host's name; limits; control groups; file systems.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "machine/cpu_model.h"
#include "machine/random_bytes.h"
#include "machine/registers.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

class VirtualMachine {
 public:
  explicit VirtualMachine(const machine::CpuModel& processor) : processor_(processor) {}

  // What one process has of it.
  struct Share {
    machine::RandomBytes random;
    bool may_hold_random = false;  // a descriptor of /dev/random or /dev/urandom
    unsigned other_reads = 0;      // while it may: of other descriptors
    bool has_changed_user = false;

    Share for_child() { return {random.split(), may_hold_random, 0, has_changed_user}; }
  };

  // A system call that a thread is about to make, with these registers.
  struct Call {
    const machine::Registers& regs;
    Tid thread;
    Tid process;
    ptrace::RemoteMemory& memory;
    Share& share;

    long number() const { return static_cast<int>(regs.rax); }
  };

  // Numbers of those that answers() must be asked of.
  static std::vector<unsigned> watched_calls(const Share& share);
  // Is it answered here, or changed when the kernel has answered it?
  bool answers(const Call& call) const;
  // What it returns. Nothing: the kernel is to answer it.
  std::optional<int64_t> answer(const Call& call) const;
  // The call that is made in its place; none for most.
  std::optional<machine::Registers> call_in_its_place(const Call& call) const;
  // The kernel has answered it, and without an error.
  void mend(const Call& call) const;

  // What the call, an open, would read. Nothing: it is no file of the machine's.
  std::optional<std::string> opened_content(const Call& call) const;
  // May the call open a device of random bytes?
  static bool opens_random_device(const Call& call);
  static bool holds_random_device(Tid process);
  // Numbers of calls that read from what may be such a device.
  static std::span<const unsigned> device_reads();

 private:
  const machine::CpuModel& processor_;
};

}  // namespace shadowprof::inject
