// SPDX-License-Identifier: MIT
#include "ptrace/remote_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/limits.h"

namespace shadowprof::ptrace {
namespace {

// Above this there is no user memory; the vsyscall page is, but its code cannot be executed.
constexpr GuestAddr kUserEnd{uint64_t{1} << 47};

std::atomic<bool> process_vm_enabled{true};

}  // namespace

void RemoteMemory::set_process_vm_enabled(bool enabled) {
  process_vm_enabled = enabled;
}

bool RemoteMemory::may_call() const {
  return process_vm_enabled && !is_refused_;
}

// The kernel has no such call, or lets nobody look at this process so.
void RemoteMemory::note_refusal(int error) {
  if (error == ENOSYS) process_vm_enabled = false;
  if (error == EPERM) is_refused_ = true;
}

size_t RemoteMemory::read_by_call(GuestAddr from, std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const iovec local{out.data() + done, out.size() - done};
    const iovec remote{reinterpret_cast<void*>(from.value + done), out.size() - done};
    const ssize_t n = ::process_vm_readv(tid_.value, &local, 1, &remote, 1, 0);
    if (n <= 0) {
      if (n < 0) note_refusal(errno);
      break;
    }
    done += static_cast<size_t>(n);
  }
  return done;
}

size_t RemoteMemory::write_by_call(GuestAddr to, std::span<const uint8_t> bytes, bool& other_way) {
  size_t done = 0;
  while (done < bytes.size()) {
    const iovec local{const_cast<uint8_t*>(bytes.data()) + done, bytes.size() - done};
    const iovec remote{reinterpret_cast<void*>(to.value + done), bytes.size() - done};
    const ssize_t n = ::process_vm_writev(tid_.value, &local, 1, &remote, 1, 0);
    if (n <= 0) {
      const int error = n < 0 ? errno : 0;
      note_refusal(error);
      other_way = error != 0 && error != EFAULT && error != ESRCH;
      break;
    }
    done += static_cast<size_t>(n);
  }
  return done;
}

bool RemoteMemory::open_file() {
  const std::string path = "/proc/" + std::to_string(tid_.value) + "/mem";
  mem_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return mem_.valid();
}

size_t RemoteMemory::read_by_file(GuestAddr from, std::span<uint8_t> out) {
  const bool was_open = mem_.valid();
  if (!was_open && !open_file()) return 0;
  for (int attempt = 0;; ++attempt) {
    size_t done = 0;
    ssize_t n = 0;
    while (done < out.size()) {
      n = ::pread(mem_.get(), out.data() + done, out.size() - done,
                  static_cast<off_t>(from.value + done));
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    // End of file means that the memory this file stands for is gone: the process executed.
    if (done > 0 || n < 0 || !was_open || attempt > 0 || !open_file()) return done;
  }
}

size_t RemoteMemory::write_by_file(GuestAddr to, std::span<const uint8_t> bytes) {
  const bool was_open = mem_.valid();
  if (!was_open && !open_file()) return 0;
  for (int attempt = 0;; ++attempt) {
    size_t done = 0;
    ssize_t n = 0;
    while (done < bytes.size()) {
      n = ::pwrite(mem_.get(), bytes.data() + done, bytes.size() - done,
                   static_cast<off_t>(to.value + done));
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    if (done > 0 || n < 0 || !was_open || attempt > 0 || !open_file()) return done;
  }
}

size_t RemoteMemory::read_some(GuestAddr from, std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (may_call()) done += read_by_call(from + done, out.subspan(done));
    if (done == out.size()) break;
    // One page of the harder sort at most, then the quick way again.
    const size_t to_page_end =
        limits::kPageBytes - static_cast<size_t>((from.value + done) % limits::kPageBytes);
    const size_t length = may_call() ? std::min(to_page_end, out.size() - done) : out.size() - done;
    const size_t n = read_by_file(from + done, out.subspan(done, length));
    done += n;
    if (n < length) break;
  }
  return done;
}

tl::unexpected<Error> RemoteMemory::failure(const char* what, GuestAddr at) const {
  const bool gone = ::kill(tid_.value, 0) != 0 && errno == ESRCH;
  return fail_errno(gone ? ESRCH : EFAULT, "cannot {} {:#x} of process {}", what, at.value,
                    tid_.value);
}

Status RemoteMemory::read(GuestAddr from, std::span<uint8_t> out) {
  const size_t done = read_some(from, out);
  if (done < out.size()) return failure("read", from + done);
  return {};
}

Status RemoteMemory::read_for_program(GuestAddr from, std::span<uint8_t> out) {
  const size_t done = may_call() ? read_by_call(from, out) : 0;
  if (done == out.size()) return {};
  return may_call() ? failure("read", from + done) : read(from, out);
}

Status RemoteMemory::write(GuestAddr to, std::span<const uint8_t> bytes) {
  size_t done = 0;
  bool by_file = !may_call();
  if (!by_file) done = write_by_call(to, bytes, by_file);
  if (by_file) done += write_by_file(to + done, bytes.subspan(done));
  if (done < bytes.size()) return failure("write", to + done);
  return {};
}

Status RemoteMemory::write_code(GuestAddr to, std::span<const uint8_t> bytes) {
  const size_t done = write_by_file(to, bytes);
  if (done < bytes.size()) return failure("write", to + done);
  return {};
}

Result<std::string> RemoteMemory::read_string(GuestAddr from, size_t limit) {
  std::string text;
  while (text.size() < limit) {
    uint8_t chunk[256];
    const GuestAddr at = from + text.size();
    const size_t want = std::min(sizeof chunk, limit - text.size());
    const size_t got = read_some(at, {chunk, want});
    const void* zero = std::memchr(chunk, 0, got);
    const size_t length =
        zero ? static_cast<size_t>(static_cast<const uint8_t*>(zero) - chunk) : got;
    text.append(reinterpret_cast<const char*>(chunk), length);
    if (zero) return text;
    if (got < want) return failure("read", at + got);
  }
  return fail_errno(ENAMETOOLONG, "no end within {} bytes of the string at {:#x} of process {}",
                    limit, from.value, tid_.value);
}

bool has_bytes_at(GuestAddr at, std::span<const GuestRange> executable, RemoteMemory& memory,
                  std::span<const uint8_t> bytes) {
  const GuestRange wanted{at, at + bytes.size()};
  const bool is_code = std::any_of(executable.begin(), executable.end(), [&](const GuestRange& r) {
    return r.contains(wanted.start) && wanted.end <= r.end;
  });
  std::vector<uint8_t> there(bytes.size());
  return is_code && memory.read_some(at, there) == bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), there.begin());
}

std::optional<GuestAddr> find_bytes(std::span<const GuestRange> executable, RemoteMemory& memory,
                                    std::span<const uint8_t> wanted) {
  std::vector<uint8_t> chunk(size_t{1} << 16);
  for (const GuestRange& range : executable) {
    if (range.end > kUserEnd) continue;
    // The chunks overlap, as the bytes may lie across.
    const size_t step = chunk.size() - (wanted.size() - 1);
    for (GuestAddr at = range.start; at + wanted.size() <= range.end; at = at + step) {
      const size_t want = std::min<uint64_t>(chunk.size(), range.end.value - at.value);
      const size_t got = memory.read_some(at, std::span(chunk).first(want));
      const auto end = chunk.begin() + static_cast<ptrdiff_t>(got);
      const auto found = std::search(chunk.begin(), end, wanted.begin(), wanted.end());
      if (found != end) return at + static_cast<uint64_t>(found - chunk.begin());
      if (got < want) break;
    }
  }
  return std::nullopt;
}

}  // namespace shadowprof::ptrace
