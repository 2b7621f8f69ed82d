// SPDX-License-Identifier: MIT
//
// Writable shared mappings of files, in a replica.
//
// A mapping keeps its file as it was opened. One that was opened for writing the kernel lets nobody
// execute (ETXTBSY): a program that writes a file by a mapping, as linkers do, may execute it once
// it has unmapped it, and a replica that still maps it would be in the way. So they are made anew
// as soon as there is a replica: read-only, and of the file opened for reading. To see which file a
// mapping is of takes the right to see /proc/PID/map_files, as root has it. Without that, and for
// memory that has no name in a file system, they stay as they are (shared_pages.h).
#pragma once

#include <vector>

#include "kernel/proc.h"
#include "ptrace/remote_syscall.h"
#include "shadow/descriptors.h"

namespace shadowprof::shadow {

bool has_shared_files(const std::vector<kernel::Mapping>& mappings);
// They are writable in the program, and to whoever asks what the replica's memory is.
void show_as_in_program(std::vector<kernel::Mapping>& mappings,
                        const std::vector<GuestRange>& anew);
// In the thread that makes the calls, which has these mappings. Returns those that are made anew.
// Files that the program has a lease on are not opened (kernel/file_leases.h).
std::vector<GuestRange> map_files_anew(ptrace::RemoteSyscalls& remote,
                                       const std::vector<kernel::Mapping>& mappings,
                                       const Descriptors& descriptors);

}  // namespace shadowprof::shadow
