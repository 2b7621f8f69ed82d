// SPDX-License-Identifier: MIT
#include "ptrace/borrow_fd.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "kernel/proc.h"

namespace shadowprof::ptrace {
namespace {

constexpr unsigned kThread = O_EXCL;  // PIDFD_THREAD of linux/pidfd.h, Linux 6.9

UniqueFd open_pidfd(Tid thread, unsigned flags) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, thread.value, flags)));
}

// A task that has the thread's descriptors.
Result<UniqueFd> open_owner(Tid thread) {
  UniqueFd pidfd = open_pidfd(thread, kThread);
  if (pidfd.valid()) return pidfd;
  pidfd = open_pidfd(thread, 0);
  if (pidfd.valid()) return pidfd;
  const int error = errno;
  const auto status = kernel::read_status(thread);
  const bool is_shared =
      status && status->tgid != thread &&
      ::syscall(SYS_kcmp, status->tgid.value, thread.value, KCMP_FILES, 0, 0) == 0;
  if (is_shared) pidfd = open_pidfd(status->tgid, 0);
  if (!pidfd.valid()) return fail_errno(error, "pidfd_open of thread {}", thread.value);
  return pidfd;
}

}  // namespace

Result<UniqueFd> borrow_fd(Tid thread, int number) {
  SP_ASSIGN(const UniqueFd pidfd, open_owner(thread));
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
  if (!fd.valid()) return fail_errno(errno, "pidfd_getfd of thread {}", thread.value);
  return fd;
}

}  // namespace shadowprof::ptrace
