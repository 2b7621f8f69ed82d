// SPDX-License-Identifier: MIT
#include "ptrace/borrow_fd.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace shadowprof::ptrace {

Result<UniqueFd> borrow_fd(Tid process, int number) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.value, 0)));
  if (!pidfd.valid()) return fail_errno(errno, "pidfd_open of process {}", process.value);
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
  if (!fd.valid()) return fail_errno(errno, "pidfd_getfd of process {}", process.value);
  return fd;
}

}  // namespace shadowprof::ptrace
