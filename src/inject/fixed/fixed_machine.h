// SPDX-License-Identifier: MIT
//
// The one machine that programs are given, the same on every host, as the threads of the engine
// meet it: their system calls that tell of the machine stop at the engine, which asks here. There
// is one of these where that is wanted, and none elsewhere.
//
//   Engine ─▶ FixedMachine ─▶ VirtualMachine   what is answered, and how (virtual_machine.h)
//                        └──▶ ProgramTime      the same for time, where that is a part of it
//
//   a slot is given    slot_given(): the gateway hands the calls to us from then on
//   before a call      concerns(): is it one of them?
//   guest context      answer(), or else the kernel makes it, and mend() follows
//
// No other thread is touched but by what its slot watches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "inject/fixed/program_time.h"
#include "inject/fixed/virtual_machine.h"
#include "inject/guests.h"
#include "machine/cpu_model.h"

namespace shadowprof::inject {

class FixedMachine {
 public:
  using Registers = ptrace::Registers;

  // `time`: nullptr where it is the host's. All else outlives it.
  FixedMachine(const Guests& guests, const machine::CpuModel& processor,
               std::unique_ptr<ProgramTime> time)
      : guests_(guests), machine_(processor), time_(std::move(time)) {}

  ProgramTime* time() const { return time_.get(); }

  // The thread has a slot from here on.
  void slot_given(GuestThread& t) {
    if (time_) time_->turns().refill(t);
    watch(t);
  }
  // The process has no thread any more.
  void ended(const GuestProcess& process) {
    if (time_) time_->timers().ended(process.pid);
  }
  // `regs`: the arguments are the guest's.
  bool concerns(GuestThread& t, const Registers& regs);
  // In guest context, before a call that concerns() was asked of. Nothing: the kernel answers it.
  std::optional<int64_t> answer(GuestThread& t, const Registers& regs);
  // The kernel has answered a call that was made with these registers, and without an error.
  void mend(GuestThread& t, const Registers& before);

 private:
  void watch(GuestThread& t) const;
  static VirtualMachine::Call call(GuestThread& t, const Registers& regs);
  void note_other_read(GuestThread& t, VirtualMachine::Share& share);
  std::optional<int64_t> open_file(GuestThread& t, const Registers& regs, std::string_view content);
  std::optional<int64_t> make_in_its_place(GuestThread& t, const Registers& other);

  const Guests& guests_;
  VirtualMachine machine_;
  std::unique_ptr<ProgramTime> time_;
};

}  // namespace shadowprof::inject
