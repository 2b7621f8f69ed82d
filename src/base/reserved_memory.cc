// SPDX-License-Identifier: MIT
#include "base/reserved_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/unique_fd.h"

namespace shadowprof {

bool overcommit_is_forbidden() {
  static const bool is_forbidden = [] {
    const UniqueFd file(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
    char mode = 0;
    return file.valid() && ::read(file.get(), &mode, 1) == 1 && mode == '2';
  }();
  return is_forbidden;
}

void* reserve_memory(size_t bytes) {
  void* memory = MAP_FAILED;
  if (!overcommit_is_forbidden()) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (memory != MAP_FAILED) return memory;
  const UniqueFd file(::memfd_create("shadowprof-table", MFD_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

void* reserve_memory_or_end(size_t bytes) {
  if (void* memory = reserve_memory(bytes)) return memory;
  error("cannot reserve {} MB of address space for shadowprof's own tables (see ulimit -v)",
        bytes >> 20);
  constexpr int kOwnFailure = 125;  // as cli/exit_codes.h
  ::_exit(kOwnFailure);
}

void give_back_memory(void* memory, size_t bytes) {
  if (::madvise(memory, bytes, MADV_REMOVE) != 0)  // a file's
    ::madvise(memory, bytes, MADV_DONTNEED);
}

}  // namespace shadowprof
