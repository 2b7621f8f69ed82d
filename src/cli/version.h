// SPDX-License-Identifier: MIT
#pragma once

namespace shadowprof::cli {

// "1.2.3", as the build file has it.
inline const char* version() {
  return SHADOWPROF_VERSION;
}

}  // namespace shadowprof::cli
