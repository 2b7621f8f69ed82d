// SPDX-License-Identifier: MIT
//
// A thread of ours may not be had: of the user's, or the control group's, there may be no more.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace shadowprof {

// False: there is none, and `thread` is as it was.
template <typename Work>
[[nodiscard]] bool start_thread(std::thread& thread, Work&& work) {
  try {
    thread = std::thread(std::forward<Work>(work));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace shadowprof
