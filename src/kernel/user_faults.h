// SPDX-License-Identifier: MIT
//
// Programs that handle page faults themselves, by a descriptor of userfaultfd(2): whoever touches a
// page that is missing waits until somebody has read of it from the descriptor and put the page
// there. It may be another thread of the same program; while that is stopped, the wait is for ever,
// and no signal but SIGKILL ends it. With UFFD_FEATURE_EVENT_FORK a fork waits as well, until its
// event is read.
#pragma once

#include <optional>
#include <string_view>

#include "base/types.h"

namespace shadowprof::kernel {

struct UserFaults {
  bool any = false;       // it has such a descriptor
  bool of_forks = false;  // and one that wants to be told of forks
};

// Reads the text of /proc/PID/fdinfo/FD; nothing: it is not one.
std::optional<UserFaults> parse_user_faults(std::string_view fdinfo);

// What one descriptor says, if it is one, and what all of them say. A descriptor for the program's
// memory that only another process holds is not seen.
UserFaults user_faults_of(Tid process, int fd);
UserFaults read_user_faults(Tid process);
// Those of threads that have a descriptor table of their own (unshare(2), CLONE_FILES), among the
// first few hundred threads. The kernel tells which these are (kcmp(2)); one that does not knows of
// none.
UserFaults user_faults_of_other_tables(Tid process);

}  // namespace shadowprof::kernel
