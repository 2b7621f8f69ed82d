// SPDX-License-Identifier: MIT
#include "shadow/kernel_writes.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

#include <algorithm>
#include <cstddef>

#include "kernel/table.h"
#include "shadow/io_vectors.h"

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kMostBytesOfWrite = 1 << 26;  // of one call

// One call's ranges, as they are found.
class Ranges {
 public:
  explicit Ranges(ptrace::RemoteMemory& memory) : memory_(memory) {}

  void add(uint64_t at, uint64_t bytes) {
    if (at == 0) return;
    if (bytes > kMostBytesOfWrite) failed_ = true;
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

// What a call has written that has not failed.
void add_written(Ranges& ranges, kernel::KeptCall kept, const SyscallArguments& args,
                 int64_t result) {
  const auto count = static_cast<uint64_t>(result);
  switch (kept) {
    case kernel::KeptCall::not_kept:
    case kernel::KeptCall::nothing:
    case kernel::KeptCall::path:
    case kernel::KeptCall::command:
      return;
    case kernel::KeptCall::request:
      return add_request(ranges, args[1], args[2]);
    case kernel::KeptCall::buffer:
      return ranges.add(args[1], count);
    case kernel::KeptCall::parts:
      if (result > 0) ranges.add_vector(args[1], args[2], result);
      return;
    case kernel::KeptCall::sender:
      ranges.add_measured(args[4], args[5]);
      return ranges.add(args[1], std::min(count, args[2]));
    case kernel::KeptCall::message:
      return ranges.add_message(args[1], result);
    case kernel::KeptCall::address:
      return ranges.add_measured(args[1], args[2]);
    case kernel::KeptCall::option:
      return ranges.add_measured(args[3], args[4]);
    case kernel::KeptCall::events:
      return ranges.add(args[1], count * sizeof(epoll_event));
    case kernel::KeptCall::polled:
      return ranges.add(args[0], args[1] * sizeof(pollfd));
    case kernel::KeptCall::sets:
    case kernel::KeptCall::sets_and_time:
      for (size_t set = 1; set <= 3; set++) ranges.add(args[set], bytes_of_set(args[0]));
      if (kept == kernel::KeptCall::sets_and_time) ranges.add(args[4], sizeof(timeval));
      return;
  }
}

}  // namespace

std::optional<std::vector<GuestRange>> kernel_writes(long nr, const SyscallArguments& args,
                                                     int64_t result, ptrace::RemoteMemory& memory) {
  const kernel::SyscallRow* row = kernel::find_syscall(nr);
  if (!row || row->kept == kernel::KeptCall::not_kept) return std::nullopt;
  Ranges ranges(memory);
  const bool has_buffer = row->kept == kernel::KeptCall::buffer ||
                          row->kept == kernel::KeptCall::events;
  if (result >= 0) {
    add_written(ranges, row->kept, args, result);
  } else if (has_buffer) {
    ranges.add(args[1], 0);
  }
  return ranges.take();
}

}  // namespace shadowprof::shadow
