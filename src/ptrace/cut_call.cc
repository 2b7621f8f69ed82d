// SPDX-License-Identifier: MIT
#include "ptrace/cut_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <optional>

#include "ptrace/borrow_fd.h"

namespace shadowprof::ptrace {
namespace {

using machine::Registers;
using Argument = decltype(Registers::rax) Registers::*;

constexpr unsigned kMemoryDevices = 1;  // a major number

// Where a call has what it moves; null: it is no such call. sendfile(2) and its relatives are none:
// they return early as they like.
struct Shape {
  Argument buffer;
  Argument length;
  uint64_t unit = 1;  // bytes of the buffer for one of the length
};

Shape shape_of(uint64_t number) {
  switch (number) {
    case SYS_write:
    case SYS_read:
    case SYS_sendto:
    case SYS_recvfrom:
      return {&Registers::rsi, &Registers::rdx};
    case SYS_recvmmsg:
      return {&Registers::rsi, &Registers::rdx, sizeof(mmsghdr)};
    case SYS_getrandom:
      return {&Registers::rdi, &Registers::rsi};
    default:
      return {nullptr, nullptr};
  }
}

// What was only looked at is still there: such a call is made anew (interruption.h).
bool waits_for_all(uint64_t flags) {
  return (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
}

std::optional<int> option_of(const UniqueFd& socket, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  if (::getsockopt(socket.get(), SOL_SOCKET, option, &value, &bytes) != 0) return std::nullopt;
  return value;
}

// A datagram is received whole, or what does not fit is lost.
bool is_stream(Tracee thread, uint64_t fd) {
  const auto socket = borrow_fd(thread.tid(), static_cast<int>(fd));
  return socket && option_of(*socket, SO_TYPE) == SOCK_STREAM;
}

bool waits_for_messages(uint64_t flags) {
  return (flags & (MSG_DONTWAIT | MSG_WAITFORONE)) == 0;
}

// The kernel leaves to the socket's next call why it came back with fewer messages (net/socket.c
// do_recvmmsg): that it was interrupted, if that was it. The next call is not to be told.
bool has_interrupted_messages(Tracee thread, uint64_t fd) {
  constexpr int kRestarts = 512;  // the kernel's own ERESTARTSYS
  const auto socket = borrow_fd(thread.tid(), static_cast<int>(fd));
  if (!socket || (::fcntl(socket->get(), F_GETFL) & O_NONBLOCK) != 0) return false;
  const auto error = option_of(*socket, SO_ERROR);
  return error == kRestarts || error == EINTR;
}

// Each of its bytes is like the others. /dev/kmsg is none: it has messages.
bool is_endless(dev_t device) {
  constexpr unsigned kZero = 5, kFull = 7, kRandom = 8, kUrandom = 9;
  const unsigned number = minor(device);
  return major(device) == kMemoryDevices &&
         (number == kZero || number == kFull || number == kRandom || number == kUrandom);
}

// The descriptor's file, while its thread stands still.
bool file_of(Tracee thread, uint64_t fd, struct stat& status) {
  const auto path = fmt::format("/proc/{}/fd/{}", thread.tid().value, static_cast<int>(fd));
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

bool CutCall::may_sleep_between_bytes(uint64_t number, uint64_t flags) {
  return number == SYS_write || number == SYS_sendto ||
         (number == SYS_recvfrom && waits_for_all(flags)) ||
         (number == SYS_recvmmsg && waits_for_messages(flags));
}

bool CutCall::is_cut(Tracee thread, const Registers& registers) {
  if (!registers.in_syscall()) return false;
  const Shape shape = shape_of(registers.orig_rax);
  const auto moved = static_cast<int64_t>(registers.rax);
  if (!shape.length || moved <= 0 || static_cast<uint64_t>(moved) >= registers.*shape.length)
    return false;
  if (registers.orig_rax == SYS_getrandom) return true;
  if (registers.orig_rax == SYS_recvfrom)
    return waits_for_all(registers.r10) && is_stream(thread, registers.rdi);
  if (registers.orig_rax == SYS_recvmmsg)
    return waits_for_messages(registers.r10) && has_interrupted_messages(thread, registers.rdi);
  struct stat file;
  if (!file_of(thread, registers.rdi, file)) return false;
  // What others put there is read as it comes.
  if (registers.orig_rax == SYS_read) return S_ISCHR(file.st_mode) && is_endless(file.st_rdev);
  return S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode) || S_ISCHR(file.st_mode);
}

uint64_t CutCall::left() const {
  return original_.*shape_of(original_.orig_rax).length - done_;
}

// With what is left, by the same instruction.
void CutCall::go_on(Registers& registers) {
  const Shape shape = shape_of(original_.orig_rax);
  registers = original_;
  registers.rip -= machine::kSyscallInsnBytes;
  registers.rax = original_.orig_rax;
  registers.orig_rax = machine::kNoSyscall;
  registers.*shape.buffer += done_ * shape.unit;
  registers.*shape.length = left();
}

void CutCall::begin(Registers& registers) {
  original_ = registers;
  done_ = registers.rax;
  active_ = goes_on_ = true;
  inside_ = false;
  go_on(registers);
}

// Whether the call with this answer, which went on with another one, is to go on once more.
bool CutCall::is_cut_again(Tracee thread, int64_t answer) const {
  if (answer <= 0 || left() == 0) return false;
  return original_.orig_rax != SYS_recvmmsg || has_interrupted_messages(thread, original_.rdi);
}

bool CutCall::look(Tracee thread, const WaitStatus& status, bool handled, Registers& registers) {
  if (status.kind() == WaitStatus::Kind::syscall_stop) {
    inside_ = !inside_;
    if (inside_ || registers.restart_pending()) return false;
    const auto moved = static_cast<int64_t>(registers.rax);
    if (moved > 0) done_ += static_cast<uint64_t>(moved);
    goes_on_ = is_cut_again(thread, moved);
    if (goes_on_)
      go_on(registers);
    else
      finish(registers);
    return true;
  }
  if (!handled) return false;
  finish(registers);
  return true;
}

void CutCall::finish(Registers& registers) {
  registers = original_;
  registers.rax = done_;
  was_to_go_on_ = goes_on_ && !inside_;
  active_ = inside_ = goes_on_ = false;
}

bool CutCall::is_still_cut(const Registers& registers) const {
  return was_to_go_on_ && registers.in_syscall() && registers.rip == original_.rip &&
         registers.rsp == original_.rsp && registers.rax == done_;
}

}  // namespace shadowprof::ptrace
