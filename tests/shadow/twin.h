// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include "../child_process.h"

namespace shadowprof::shadow {

// A child with our memory and descriptors that makes no calls.
class Twin : public test::ChildProcess {
 public:
  Twin()
      : ChildProcess([] {
          for (;;) ::pause();
        }) {}
};

}  // namespace shadowprof::shadow
