// SPDX-License-Identifier: MIT
//
// Another process's memory. Unlike ptrace requests this works at any time and from any of our
// threads, whether the target is stopped or runs; what a running target writes meanwhile is seen in
// part, and nothing is atomic.
//
// Two ways of the kernel, with different permissions:
// - process_vm_readv(2)/writev: one call without a file; obeys the protection of the pages.
// - /proc/PID/mem: as the tracer we may also read pages that the program cannot (PROT_NONE,
//   execute-only), and write private pages that are read-only (they are copied first, as on any
//   write to a private file mapping; the file is untouched).
// Reads use the first and fall back on the second. Writes use the first, so that a slip of ours
// cannot alter code; write_code uses the second. Where process_vm_* is missing or forbidden
// (ENOSYS; EPERM under some seccomp profiles), everything goes by /proc/PID/mem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"

namespace shadowprof::ptrace {

class RemoteMemory {
 public:
  // Any thread of the process.
  explicit RemoteMemory(Tid tid) : tid_(tid) {}

  // Reads as much as can be read without a gap: a result shorter than `out` means that the byte
  // behind it is not readable (or the process is gone), 0 that the first is not.
  size_t read_some(GuestAddr from, std::span<uint8_t> out);

  // All of it or an Error: EFAULT names the first unreadable address; ESRCH: the process is gone.
  Status read(GuestAddr from, std::span<uint8_t> out);
  // The same as the kernel reads for the program: EFAULT also where that itself may not read. (Like
  // read() on a host that forbids process_vm_readv.)
  Status read_for_program(GuestAddr from, std::span<uint8_t> out);
  // All of it or an Error (EFAULT); then a prefix may have been written.
  Status write(GuestAddr to, std::span<const uint8_t> bytes);
  // The same for pages that the program itself cannot write. Shared mappings refuse it.
  Status write_code(GuestAddr to, std::span<const uint8_t> bytes);

  // A zero-terminated string without its zero. EFAULT if unreadable, ENAMETOOLONG if no zero is
  // among the first `limit` bytes.
  Result<std::string> read_string(GuestAddr from, size_t limit);

  template <typename T>
  Result<T> read_value(GuestAddr from) {
    return read_by<T>(&RemoteMemory::read, from);
  }
  template <typename T>
  Result<T> read_argument(GuestAddr from) {
    return read_by<T>(&RemoteMemory::read_for_program, from);
  }
  template <typename T>
  Status write_value(GuestAddr to, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return write(to, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
  }

  // As the kernel would for the program. False is its EFAULT.
  template <typename T>
  bool put(uint64_t address, const T& value) {
    return write_value(GuestAddr(address), value).has_value();
  }

  // The process has executed another program: an open /proc/PID/mem is bound to the old memory and
  // reads nothing any more. (Noticed without help when everything reads as unmapped.)
  void forget_program() { mem_.reset(); }

  // Off: use /proc/PID/mem only, as on a host that forbids process_vm_readv. For all objects, and
  // for tests: call it before threads use this class.
  static void set_process_vm_enabled(bool enabled);

  Tid tid() const { return tid_; }

 private:
  template <typename T>
  Result<T> read_by(Status (RemoteMemory::*way)(GuestAddr, std::span<uint8_t>), GuestAddr from) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    SP_TRY((this->*way)(from, {reinterpret_cast<uint8_t*>(&value), sizeof value}));
    return value;
  }
  bool may_call() const;
  void note_refusal(int error);
  size_t read_by_call(GuestAddr from, std::span<uint8_t> out);
  // `other_way`: the memory may well be written, the call could not.
  size_t write_by_call(GuestAddr to, std::span<const uint8_t> bytes, bool& other_way);
  size_t read_by_file(GuestAddr from, std::span<uint8_t> out);
  size_t write_by_file(GuestAddr to, std::span<const uint8_t> bytes);
  bool open_file();
  tl::unexpected<Error> failure(const char* what, GuestAddr at) const;

  Tid tid_;
  bool is_refused_ = false;  // process_vm_readv
  UniqueFd mem_;
};

// Are these bytes at this address, in one of the ranges of code?
bool has_bytes_at(GuestAddr at, std::span<const GuestRange> executable, RemoteMemory& memory,
                  std::span<const uint8_t> bytes);
// Where `wanted` is first met in the ranges of code, which are searched in their order.
std::optional<GuestAddr> find_bytes(std::span<const GuestRange> executable, RemoteMemory& memory,
                                    std::span<const uint8_t> wanted);

}  // namespace shadowprof::ptrace
