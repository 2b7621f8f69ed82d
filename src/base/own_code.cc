// SPDX-License-Identifier: MIT
#include "base/own_code.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace shadowprof {

Result<OwnCode> OwnCode::create(const char* name, size_t bytes) {
  const UniqueFd memory(::memfd_create(name, MFD_CLOEXEC));
  if (!memory.valid() || ::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(errno, "cannot create memory for code (memfd_create)");
  void* w = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (w == MAP_FAILED) return fail_errno(errno, "cannot map {} bytes for code", bytes);
  void* x = ::mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, memory.get(), 0);
  if (x == MAP_FAILED) {
    const int error = errno;
    ::munmap(w, bytes);
    return fail_errno(error, "cannot map {} bytes of executable memory", bytes);
  }
  return OwnCode(static_cast<uint8_t*>(w), static_cast<uint8_t*>(x), bytes);
}

OwnCode::OwnCode(OwnCode&& other) noexcept
    : writable_(std::exchange(other.writable_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)),
      size_(other.size_) {}

OwnCode::~OwnCode() {
  if (!writable_) return;
  ::munmap(writable_, size_);
  ::munmap(executable_, size_);
}

}  // namespace shadowprof
