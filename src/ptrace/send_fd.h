// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>

#include "base/result.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// Gives the tracee a descriptor for what `fd` is open on (close-on-exec), which has the number that
// open(2) would give it; the tracee closes it. It is one of the calling thread's, which a child of
// vfork(2) has other ones than the process whose memory it is in.
//
// It opens /proc/OURPID/fd/N where it may. A program that has given up its rights, or lives in
// other namespaces, may not: then it makes a socket pair, we take one end (pidfd_getfd, which needs
// only the right to trace) and send the descriptor through it. `flags`: of open(2); where we may
// not open our own file anew, the second way gives it as it is.
Result<int> send_fd(RemoteSyscalls& remote, int fd, int flags = O_RDWR);

}  // namespace shadowprof::ptrace
