// SPDX-License-Identifier: MIT
//
// The cores that this thread may use, which it may again when this is gone.
#pragma once

#include <sched.h>

#include <optional>
#include <utility>
#include <vector>

namespace shadowprof::probe {

class OwnCores {
 public:
  OwnCores() {
    CPU_ZERO(&allowed_);
    known_ = ::sched_getaffinity(0, sizeof allowed_, &allowed_) == 0;
  }
  ~OwnCores() {
    if (known_) (void)use(allowed_);
  }
  OwnCores(const OwnCores&) = delete;
  OwnCores& operator=(const OwnCores&) = delete;

  std::vector<size_t> all() const {
    std::vector<size_t> found;
    for (size_t cpu = 0; known_ && cpu < CPU_SETSIZE; cpu++) {
      if (CPU_ISSET(cpu, &allowed_)) found.push_back(cpu);
    }
    return found;
  }
  // Two of them; nothing if there is only one.
  std::optional<std::pair<size_t, size_t>> two() const {
    const std::vector<size_t> found = all();
    if (found.size() < 2) return std::nullopt;
    return std::pair(found[0], found[1]);
  }
  // From now on not that one. False: there is no other.
  bool leave(size_t core) const {
    cpu_set_t others = allowed_;
    CPU_CLR(core, &others);
    return CPU_COUNT(&others) != 0 && use(others);
  }
  // From now on that one alone. False: it may not be used.
  static bool stay_on(size_t core) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    return use(only);
  }

 private:
  static bool use(const cpu_set_t& cores) {
    return ::sched_setaffinity(0, sizeof cores, &cores) == 0;
  }

  cpu_set_t allowed_;
  bool known_ = false;
};

}  // namespace shadowprof::probe
