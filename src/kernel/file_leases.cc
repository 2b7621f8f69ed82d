// SPDX-License-Identifier: MIT
#include "kernel/file_leases.h"

#include <algorithm>

#include "kernel/fdinfo.h"

namespace shadowprof::kernel {

// "lock:\t1: LEASE  ACTIVE    WRITE 4711 fe:01:131 0 EOF"
bool has_lease(std::string_view fdinfo) {
  while (!fdinfo.empty()) {
    const std::string_view line = fdinfo.substr(0, fdinfo.find('\n'));
    if (line.starts_with("lock:") && line.find("LEASE") != line.npos) return true;
    fdinfo.remove_prefix(std::min(line.size() + 1, fdinfo.size()));
  }
  return false;
}

bool has_lease(Tid process, int fd) {
  return has_lease(read_fdinfo(process, fd));
}

}  // namespace shadowprof::kernel
