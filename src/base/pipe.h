// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace shadowprof {

// Both ends are close-on-exec.
struct Pipe {
  UniqueFd reader;
  UniqueFd writer;

  // False: errno says why not.
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    return true;
  }
};

}  // namespace shadowprof
