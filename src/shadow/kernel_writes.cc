// SPDX-License-Identifier: MIT
#include "shadow/kernel_writes.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

#include <algorithm>
#include <cstddef>

#include "shadow/io_vectors.h"

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kMostBytes = 1 << 26;  // of one call
constexpr long kPreadv2 = 327;
constexpr long kEpollPwait2 = 441;

// One call's ranges, as they are found.
class Ranges {
 public:
  explicit Ranges(ptrace::RemoteMemory& memory) : memory_(memory) {}

  void add(uint64_t at, uint64_t bytes) {
    if (at == 0) return;
    if (bytes > kMostBytes) failed_ = true;
    ranges_.push_back({GuestAddr(at), GuestAddr(at + bytes)});
  }
  // What is at `at` is as long as the 32-bit number at `length` says.
  void add_measured(uint64_t at, uint64_t length) {
    if (at == 0 || length == 0) return;
    const auto bytes = memory_.read_value<uint32_t>(GuestAddr(length));
    if (!bytes) {
      failed_ = true;
      return;
    }
    add(length, sizeof(uint32_t));
    add(at, *bytes);
  }
  void add_vector(uint64_t vector, uint64_t count, int64_t bytes) {
    const auto vectors = read_io_vectors(memory_, GuestAddr(vector), count);
    if (!vectors || bytes < 0) {
      failed_ = true;
      return;
    }
    auto left = static_cast<uint64_t>(bytes);
    for (const iovec& part : *vectors) {
      const uint64_t here = std::min<uint64_t>(left, part.iov_len);
      add(reinterpret_cast<uint64_t>(part.iov_base), here);
      left -= here;
    }
  }
  void add_message(uint64_t at, int64_t bytes) {
    const auto header = memory_.read_value<msghdr>(GuestAddr(at));
    if (!header) {
      failed_ = true;
      return;
    }
    add(at + offsetof(msghdr, msg_namelen), sizeof header->msg_namelen);
    add(at + offsetof(msghdr, msg_controllen), sizeof header->msg_controllen);
    add(at + offsetof(msghdr, msg_flags), sizeof header->msg_flags);
    add(reinterpret_cast<uint64_t>(header->msg_name), header->msg_namelen);
    add(reinterpret_cast<uint64_t>(header->msg_control), header->msg_controllen);
    add_vector(reinterpret_cast<uint64_t>(header->msg_iov), header->msg_iovlen, bytes);
  }
  void fail() { failed_ = true; }

  std::optional<std::vector<GuestRange>> take() {
    if (failed_) return std::nullopt;
    return std::move(ranges_);
  }

 private:
  ptrace::RemoteMemory& memory_;
  std::vector<GuestRange> ranges_;
  bool failed_ = false;
};

void add_request(Ranges& ranges, uint64_t request, uint64_t argument) {
  switch (request) {
    case FIONREAD:
    case TIOCOUTQ:
    case TIOCGPGRP:
      return ranges.add(argument, sizeof(int));
    case TIOCGWINSZ:
      return ranges.add(argument, sizeof(winsize));
    case TCGETS:
      return ranges.add(argument, 36);  // the kernel's struct termios
    case FIONBIO:
    case FIOASYNC:
    case FIOCLEX:
    case FIONCLEX:
      return;
    default:
      ranges.fail();
  }
}

uint64_t bytes_of_set(uint64_t descriptors) {
  return (descriptors + 63) / 64 * sizeof(uint64_t);
}

// False: none of these calls.
bool add_socket_call(Ranges& ranges, long nr, const SyscallArguments& args, int64_t result) {
  const bool failed = result < 0;
  switch (nr) {
    case SYS_recvfrom:
      if (failed) return true;
      ranges.add_measured(args[4], args[5]);
      ranges.add(args[1], std::min(static_cast<uint64_t>(result), args[2]));
      return true;
    case SYS_recvmsg:
      if (!failed) ranges.add_message(args[1], result);
      return true;
    case SYS_accept:
    case SYS_accept4:
    case SYS_getsockname:
    case SYS_getpeername:
      if (!failed) ranges.add_measured(args[1], args[2]);
      return true;
    case SYS_getsockopt:
      if (!failed) ranges.add_measured(args[3], args[4]);
      return true;
    default:
      return nr == SYS_sendto || nr == SYS_sendmsg;
  }
}

bool add_wait_for_events(Ranges& ranges, long nr, const SyscallArguments& args, int64_t result) {
  const bool failed = result < 0;
  switch (nr) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case kEpollPwait2:
      ranges.add(args[1], failed ? 0 : static_cast<uint64_t>(result) * sizeof(epoll_event));
      return true;
    case SYS_poll:
    case SYS_ppoll:
      if (!failed) ranges.add(args[0], args[1] * sizeof(pollfd));
      return true;
    case SYS_select:
    case SYS_pselect6:
      if (failed) return true;
      for (size_t set = 1; set <= 3; set++) ranges.add(args[set], bytes_of_set(args[0]));
      if (nr == SYS_select) ranges.add(args[4], sizeof(timeval));
      return true;
    default:
      return false;
  }
}

bool add_file_call(Ranges& ranges, long nr, const SyscallArguments& args, int64_t result) {
  switch (nr) {
    case SYS_read:
    case SYS_pread64:
    case SYS_getdents:
    case SYS_getdents64:
      ranges.add(args[1], result > 0 ? static_cast<uint64_t>(result) : 0);
      return true;
    case SYS_readv:
    case SYS_preadv:
    case kPreadv2:
      if (result > 0) ranges.add_vector(args[1], args[2], result);
      return true;
    case SYS_ioctl:
      if (result >= 0) add_request(ranges, args[1], args[2]);
      return true;
    case SYS_fcntl:
    case SYS_open:
    case SYS_openat:
    case SYS_write:
    case SYS_writev:
    case SYS_lseek:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<std::vector<GuestRange>> kernel_writes(long nr, const SyscallArguments& args,
                                                     int64_t result, ptrace::RemoteMemory& memory) {
  Ranges ranges(memory);
  const bool known = add_file_call(ranges, nr, args, result) ||
                     add_socket_call(ranges, nr, args, result) ||
                     add_wait_for_events(ranges, nr, args, result);
  if (!known) return std::nullopt;
  return ranges.take();
}

bool is_kept(long nr) {
  ptrace::RemoteMemory none{Tid()};
  return kernel_writes(nr, {}, -1, none).has_value();
}

bool returns_descriptor(long nr) {
  return nr == SYS_accept || nr == SYS_accept4 || nr == SYS_open || nr == SYS_openat;
}

}  // namespace shadowprof::shadow
