// SPDX-License-Identifier: MIT
//
// Where the program is given a machine that is the same on every host: its cpuid, and the system
// calls that virtual_machine.h answers.
#include <cpuid.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/unique_fd.h"
#include "inject/engine.h"
#include "ptrace/send_fd.h"

namespace shadowprof::inject {
namespace {

// Open for reading, at its begin. Invalid: there is no memory for it.
UniqueFd file_with(std::string_view content) {
  UniqueFd file(::memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto size = static_cast<ssize_t>(content.size());
  constexpr mode_t kReadOnly = 0444;
  const bool written =
      file.valid() && ::write(file.get(), content.data(), content.size()) == size &&
      ::lseek(file.get(), 0, SEEK_SET) == 0 && ::fchmod(file.get(), kReadOnly) == 0 &&
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0;
  return written ? std::move(file) : UniqueFd();
}

}  // namespace

VirtualMachine::Call Engine::machine_call(GuestThread& t, const Registers& regs) {
  return {regs, t.tracee.tid(), t.process->pid, t.process->space->code().memory(),
          t.process->machine_share};
}

// `regs`: the arguments are the guest's.
bool Engine::is_for_machine(GuestThread& t, const Registers& regs) {
  if (!machine_) return false;
  const auto number = static_cast<int>(regs.rax);
  if (clock_ && (is_time_call(number) || is_timer_call(number))) return true;
  const VirtualMachine::Call call = machine_call(t, regs);
  if (!call.share.may_hold_random && VirtualMachine::opens_random_device(call)) {
    call.share.may_hold_random = true;
    for (auto& [tid, other] : threads_)
      if (other->process == t.process) watch_machine_calls(*other);
  }
  const bool is_answered = machine_->answers(call);
  const bool may_read_device =
      call.share.may_hold_random &&
      std::ranges::count(VirtualMachine::device_reads(), static_cast<unsigned>(call.number())) != 0;
  if (may_read_device && !is_answered) note_other_read(t, call.share);
  return is_answered;
}

// Most programs take a few bytes from the device, close it, and read for long from elsewhere.
// Whether they hold it is looked up now and then, and seldom where they do.
void Engine::note_other_read(GuestThread& t, VirtualMachine::Share& share) {
  constexpr unsigned kFirstLook = 16;
  const unsigned reads = ++share.other_reads;
  if (reads < kFirstLook || !std::has_single_bit(reads)) return;
  const auto is_held = [&](const auto& entry) {
    return entry.second->process == t.process && entry.second->holding;
  };
  if (std::ranges::any_of(threads_, is_held)) return;
  if (VirtualMachine::holds_random_device(t.process->pid)) return;
  share.may_hold_random = false;
  share.other_reads = 0;
  for (auto& [tid, other] : threads_) {
    if (other->process != t.process || !other->slot) continue;
    for (const unsigned number : VirtualMachine::device_reads()) other->slot->unwatch(number);
    watch_machine_calls(*other);
  }
}

// The gateway hands them to us.
void Engine::watch_machine_calls(GuestThread& t) {
  if (!machine_ || !t.slot) return;
  for (const unsigned number : VirtualMachine::watched_calls(t.process->machine_share))
    t.slot->watch(number);
  if (turns_.is_active()) watch_turn_calls(t);
  if (!clock_) return;
  for (const auto numbers : {time_calls(), timed_calls(), timer_calls(), child_waits()})
    for (const unsigned number : numbers) t.slot->watch(number);
  t.slot->watch(SYS_setsockopt);
}

// In guest context, before a call that is_for_machine() was asked of. False: the kernel answers it.
bool Engine::answer_by_machine(GuestThread& t, Registers& regs) {
  if (!machine_) return false;
  const VirtualMachine::Call call = machine_call(t, regs);
  const auto content = machine_->opened_content(call);
  std::optional<int64_t> result;
  if (clock_ && is_time_call(call.number())) {
    catch_up(t);
    result = answer_time_call(time_call(t, regs));
  } else if (clock_ && is_timer_call(call.number())) {
    result = answer_for_timers(t, regs);
  } else {
    result = content ? open_machine_file(t, regs, *content) : machine_->answer(call);
    if (const auto other = machine_->call_in_its_place(call)) result = make_in_its_place(t, *other);
  }
  if (!result) return false;
  return_from_call(t, regs, *result);
  return true;
}

// Its descriptor. Nothing: it could not be given one.
std::optional<int64_t> Engine::open_machine_file(GuestThread& t, const Registers& regs,
                                                 std::string_view content) {
  const UniqueFd file = file_with(content);
  if (!file.valid() || !t.tracee.set_registers_if_alive(regs)) return std::nullopt;
  ptrace::RemoteSyscalls remote(t.tracee, t.process->space->syscall_insn(), options_.trace,
                                ptrace::StopSignal::drop);
  remote.keep_signals_in(t.deferred);
  const uint64_t flags = static_cast<int>(regs.rax) == SYS_open ? regs.rsi : regs.rdx;
  const auto fd = ptrace::send_fd(remote, t.process->pid, file.get(), O_RDONLY);
  if (fd && (flags & O_CLOEXEC) == 0) (void)remote.call(SYS_fcntl, *fd, F_SETFD, 0);
  (void)remote.finish();
  if (!fd) return std::nullopt;
  return *fd;
}

// What it returns. Nothing: it was not made.
std::optional<int64_t> Engine::make_in_its_place(GuestThread& t, const Registers& other) {
  if (!t.tracee.set_registers_if_alive(other)) return std::nullopt;
  ptrace::RemoteSyscalls remote(t.tracee, t.process->space->syscall_insn(), options_.trace,
                                ptrace::StopSignal::drop);
  remote.keep_signals_in(t.deferred);
  const auto result = remote.call(static_cast<int>(other.rax), other.rdi, other.rsi, other.rdx,
                                  other.r10, other.r8, other.r9);
  (void)remote.finish();
  return result ? std::optional(*result) : std::nullopt;
}

// What the model's processor does instead of the host's. The instruction is not executed: some
// hypervisors lose the trap of a single step over it, and what follows executes, too.
bool Engine::answer_for_processor(Registers& regs, const NativeInsn& insn) const {
  if (!options_.processor) return false;
  const machine::CpuModel& processor = *options_.processor;
  const auto leaf = static_cast<uint32_t>(regs.rax);
  const auto subleaf = static_cast<uint32_t>(regs.rcx);
  if (insn.asks_enabled_state) {
    if (subleaf != 0 || processor.enabled_state() == 0) return false;
    regs.rax = static_cast<uint32_t>(processor.enabled_state());
    regs.rdx = processor.enabled_state() >> 32;
  } else if (insn.asks_processor) {
    machine::CpuidAnswer host;
    __cpuid_count(leaf, subleaf, host.eax, host.ebx, host.ecx, host.edx);
    const machine::CpuidAnswer answer = processor.cpuid(leaf, subleaf, host);
    regs.rax = answer.eax;
    regs.rbx = answer.ebx;
    regs.rcx = answer.ecx;
    regs.rdx = answer.edx;
  } else {
    return false;
  }
  regs.rip += insn.length;
  return true;
}

}  // namespace shadowprof::inject
