// SPDX-License-Identifier: MIT
//
// The timeouts of sockets (SO_RCVTIMEO, SO_SNDTIMEO), where time is a virtual clock's. They belong
// to the socket, whoever has it open, and the kernel asks for them when a call begins. So the
// kernel keeps the program's, and has another one for as long as a thread comes to sleep:
//
//   note()      the program sets one: it is known exactly then, and not only in the kernel's ticks
//   of()        a call is about to be made that may wait so long
//   lift()      now it waits until it is interrupted, as one with a timeout: with EINTR
//   (the end)   the thread sleeps, or is behind its call: the socket has its timeout again
//
// Left to the kernel: calls that are about two files (sendfile, splice), connect(2), whose answer
// depends on the protocol, and recvmmsg(2), which keeps an interruption for the next call. Where
// the kernel does not let us have a program's descriptors (before Linux 5.6), all are.
#pragma once

#include <sys/time.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/types.h"
#include "base/unique_fd.h"
#include "machine/registers.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::inject {

// What the program has set. No socket gets the cookie of another one.
class SocketTimeouts {
 public:
  // A setsockopt(2) that is about to be made. False: it is about something else.
  bool note(const machine::Registers& regs, Tid process, ptrace::RemoteMemory& memory);
  bool empty() const { return lengths_.empty(); }
  std::optional<timeval> find(uint64_t cookie, bool of_sending) const;

 private:
  // [0]: to receive, [1]: to send.
  std::unordered_map<uint64_t, std::pair<timeval, timeval>> lengths_;
};

class SocketTimeout {
 public:
  static std::optional<SocketTimeout> of(const machine::Registers& regs, Tid process,
                                         const SocketTimeouts& known);
  SocketTimeout(SocketTimeout&& other) noexcept;
  SocketTimeout& operator=(SocketTimeout&&) = delete;
  ~SocketTimeout();

  uint64_t length_ns() const { return length_ns_; }
  // False: the kernel refuses it.
  bool lift();

 private:
  SocketTimeout() = default;

  UniqueFd socket_;
  int option_ = 0;
  timeval in_kernel_{};
  uint64_t length_ns_ = 0;
  bool lifted_ = false;
};

}  // namespace shadowprof::inject
