// SPDX-License-Identifier: MIT
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/types.h"

namespace shadowprof::shadow {

// A child with our memory and descriptors that makes no calls.
class Twin {
 public:
  Twin() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Twin() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Tid tid() const { return Tid(pid_); }

 private:
  pid_t pid_;
};

}  // namespace shadowprof::shadow
