// SPDX-License-Identifier: MIT
#include "inject/fixed/fixed_machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/unique_fd.h"
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

VirtualMachine::Call FixedMachine::call(GuestThread& t, const Registers& regs) {
  return {regs, t.tracee.tid(), t.process->pid, t.process->space->code().memory(),
          t.process->machine_share};
}

bool FixedMachine::concerns(GuestThread& t, const Registers& regs) {
  if (time_ && ProgramTime::answers(static_cast<int>(regs.rax))) return true;
  const VirtualMachine::Call made = call(t, regs);
  if (!made.share.may_hold_random && VirtualMachine::opens_random_device(made)) {
    made.share.may_hold_random = true;
    for (GuestThread* other : guests_.threads_of(*t.process)) watch(*other);
  }
  const bool is_answered = machine_.answers(made);
  const bool may_read_device =
      made.share.may_hold_random &&
      std::ranges::count(VirtualMachine::device_reads(), static_cast<unsigned>(made.number())) != 0;
  if (may_read_device && !is_answered) note_other_read(t, made.share);
  return is_answered;
}

// Most programs take a few bytes from the device, close it, and read for long from elsewhere.
// Whether they hold it is looked up now and then, and seldom where they do.
void FixedMachine::note_other_read(GuestThread& t, VirtualMachine::Share& share) {
  constexpr unsigned kFirstLook = 16;
  const unsigned reads = ++share.other_reads;
  if (reads < kFirstLook || !std::has_single_bit(reads)) return;
  const std::vector<GuestThread*> all = guests_.threads_of(*t.process);
  if (std::ranges::any_of(all, &GuestThread::holding)) return;
  if (VirtualMachine::holds_random_device(t.process->pid)) return;
  share.may_hold_random = false;
  share.other_reads = 0;
  for (GuestThread* other : all) {
    if (!other->slot) continue;
    for (const unsigned number : VirtualMachine::device_reads()) other->slot->unwatch(number);
    watch(*other);
  }
}

void FixedMachine::watch(GuestThread& t) const {
  if (!t.slot) return;
  for (const unsigned number : VirtualMachine::watched_calls(t.process->machine_share))
    t.slot->watch(number);
  if (time_) time_->watch_calls(t);
}

std::optional<int64_t> FixedMachine::answer(GuestThread& t, const Registers& regs) {
  if (time_ && ProgramTime::answers(static_cast<int>(regs.rax))) return time_->answer(t, regs);
  const VirtualMachine::Call made = call(t, regs);
  if (const auto other = machine_.call_in_its_place(made)) return make_in_its_place(t, *other);
  if (const auto content = machine_.opened_content(made)) return open_file(t, regs, *content);
  return machine_.answer(made);
}

void FixedMachine::mend(GuestThread& t, const Registers& before) {
  machine_.mend(call(t, before));
  if (time_) time_->mend(t, before);
}

// Its descriptor. Nothing: it could not be given one.
std::optional<int64_t> FixedMachine::open_file(GuestThread& t, const Registers& regs,
                                               std::string_view content) {
  const UniqueFd file = file_with(content);
  if (!file.valid() || !t.tracee.set_registers_if_alive(regs)) return std::nullopt;
  GuestCalls remote(t);
  const uint64_t flags = static_cast<int>(regs.rax) == SYS_open ? regs.rsi : regs.rdx;
  const auto fd = ptrace::send_fd(remote, file.get(), O_RDONLY);
  if (fd && (flags & O_CLOEXEC) == 0) (void)remote.call(SYS_fcntl, *fd, F_SETFD, 0);
  (void)remote.finish();
  if (!fd) return std::nullopt;
  return *fd;
}

// What it returns. Nothing: it was not made.
std::optional<int64_t> FixedMachine::make_in_its_place(GuestThread& t, const Registers& other) {
  if (!t.tracee.set_registers_if_alive(other)) return std::nullopt;
  GuestCalls remote(t);
  const auto result = remote.call(static_cast<int>(other.rax), other.rdi, other.rsi, other.rdx,
                                  other.r10, other.r8, other.r9);
  (void)remote.finish();
  return result ? std::optional(*result) : std::nullopt;
}

}  // namespace shadowprof::inject
