// SPDX-License-Identifier: MIT
#include "inject/fixed/socket_timeout.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "ptrace/borrow_fd.h"

namespace shadowprof::inject {
namespace {

using machine::Registers;

// Those of 64-bit time, which are the same here (include/uapi/asm-generic/socket.h).
constexpr int kReceiveNew = 66, kSendNew = 67;
constexpr time_t kForLong_s = 1'000'000'000;
constexpr suseconds_t kSecond_us = 1'000'000;

bool is_set(const timeval& time) {
  return time.tv_sec != 0 || time.tv_usec != 0;
}

std::optional<uint64_t> cookie_of(int socket) {
  uint64_t cookie = 0;
  socklen_t bytes = sizeof cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) != 0) return std::nullopt;
  return cookie;
}

struct SocketCall {
  bool sends = false;
  uint64_t flags = 0;
};

// Nothing: it is none, or one that is left to the kernel.
std::optional<SocketCall> socket_call(const Registers& regs) {
  switch (static_cast<int>(regs.rax)) {
    case SYS_read:
    case SYS_readv:
    case SYS_accept:
    case SYS_accept4:
      return SocketCall{false, 0};
    case SYS_recvfrom:
      return SocketCall{false, regs.r10};
    case SYS_recvmsg:
      return SocketCall{false, regs.rdx};
    case SYS_write:
    case SYS_writev:
      return SocketCall{true, 0};
    case SYS_sendto:
    case SYS_sendmmsg:
      return SocketCall{true, regs.r10};
    case SYS_sendmsg:
      return SocketCall{true, regs.rdx};
    default:
      return std::nullopt;
  }
}

// What the kernel makes the same number of ticks of: it told of them rounded down, and rounds up
// (net/core/sock.c sock_get_timeout, sock_set_timeout). A tick is a millisecond at least.
timeval as_it_was_set(timeval told) {
  constexpr suseconds_t kBelowATick_us = 999;
  if (told.tv_usec > kBelowATick_us) told.tv_usec -= kBelowATick_us;
  return told;
}

}  // namespace

bool SocketTimeouts::note(const Registers& regs, Tid process, ptrace::RemoteMemory& memory) {
  constexpr size_t kMost = 100'000;  // then the kernel's ticks will do
  const auto option = static_cast<int>(regs.rdx);
  const bool sends = option == SO_SNDTIMEO || option == kSendNew;
  if (static_cast<int>(regs.rax) != SYS_setsockopt || static_cast<int>(regs.rsi) != SOL_SOCKET ||
      (!sends && option != SO_RCVTIMEO && option != kReceiveNew))
    return false;
  const auto length = memory.read_argument<timeval>(GuestAddr(regs.r10));
  const bool is_sound = length && static_cast<int>(regs.r8) >= static_cast<int>(sizeof *length) &&
                        length->tv_sec >= 0 && length->tv_usec >= 0 && length->tv_usec < kSecond_us;
  if (!is_sound) return false;
  const auto socket = ptrace::borrow_fd(process, static_cast<int>(regs.rdi));
  if (!socket) return false;
  const auto cookie = cookie_of(socket->get());
  if (!cookie) return false;
  if (lengths_.size() >= kMost) lengths_.erase(lengths_.begin());
  auto& [receive, send] = lengths_[*cookie];
  (sends ? send : receive) = *length;
  return true;
}

std::optional<timeval> SocketTimeouts::find(uint64_t cookie, bool of_sending) const {
  const auto it = lengths_.find(cookie);
  if (it == lengths_.end()) return std::nullopt;
  return of_sending ? it->second.second : it->second.first;
}

std::optional<SocketTimeout> SocketTimeout::of(const Registers& regs, Tid process,
                                               const SocketTimeouts& known) {
  const auto call = socket_call(regs);
  if (known.empty() || !call || (call->flags & MSG_DONTWAIT) != 0) return std::nullopt;
  auto socket = ptrace::borrow_fd(process, static_cast<int>(regs.rdi));
  if (!socket) return std::nullopt;
  SocketTimeout found;
  found.option_ = call->sends ? SO_SNDTIMEO : SO_RCVTIMEO;
  socklen_t bytes = sizeof found.in_kernel_;
  const bool is_socket =
      ::getsockopt(socket->get(), SOL_SOCKET, found.option_, &found.in_kernel_, &bytes) == 0;
  if (!is_socket || !is_set(found.in_kernel_)) return std::nullopt;
  if ((::fcntl(socket->get(), F_GETFL) & O_NONBLOCK) != 0) return std::nullopt;
  const auto cookie = cookie_of(socket->get());
  timeval length = found.in_kernel_;
  if (const auto set = cookie ? known.find(*cookie, call->sends) : std::nullopt)
    if (is_set(*set)) length = *set;
  constexpr uint64_t kMicrosecond_ns = 1000;
  found.length_ns_ = (static_cast<uint64_t>(std::min(length.tv_sec, kForLong_s)) * kSecond_us +
                      static_cast<uint64_t>(length.tv_usec)) *
                     kMicrosecond_ns;
  found.socket_ = std::move(*socket);
  return found;
}

SocketTimeout::SocketTimeout(SocketTimeout&& other) noexcept
    : socket_(std::move(other.socket_)),
      option_(other.option_),
      in_kernel_(other.in_kernel_),
      length_ns_(other.length_ns_),
      lifted_(std::exchange(other.lifted_, false)) {}

SocketTimeout::~SocketTimeout() {
  if (!lifted_) return;
  const timeval before = as_it_was_set(in_kernel_);
  (void)::setsockopt(socket_.get(), SOL_SOCKET, option_, &before, sizeof before);
}

bool SocketTimeout::lift() {
  const timeval endless{kForLong_s, 0};
  lifted_ = ::setsockopt(socket_.get(), SOL_SOCKET, option_, &endless, sizeof endless) == 0;
  return lifted_;
}

}  // namespace shadowprof::inject
