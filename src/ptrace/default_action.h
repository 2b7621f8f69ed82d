// SPDX-License-Identifier: MIT
//
// What the kernel does with a signal that a program neither handles, nor ignores, nor blocks.
#pragma once

#include <cstdint>

namespace shadowprof::ptrace {

enum class DefaultAction : uint8_t {
  none,
  go_on,  // was done when it was sent: whoever takes it finds nothing to do
  stop,   // of the process
  death,
};

DefaultAction default_action(int signal);

}  // namespace shadowprof::ptrace
