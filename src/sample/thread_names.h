// SPDX-License-Identifier: MIT
//
// What the kernel calls the program's threads (comm of proc(5)). Threads rename themselves, so each
// is asked for again whenever it has something to hand over: an open, a read and a close. One that
// is gone by then keeps the name that it had last.
#pragma once

#include <array>
#include <unordered_map>

#include "base/types.h"

namespace shadowprof::sample {

class ThreadNames {
 public:
  using Name = std::array<char, 16>;  // with a 0 at its end
  // "": it is not known.
  Name of(Tid thread);

 private:
  static constexpr size_t kMostThreads = 4'096;
  std::unordered_map<Tid, Name> last_;
};

}  // namespace shadowprof::sample
