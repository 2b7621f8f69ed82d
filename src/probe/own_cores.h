// SPDX-License-Identifier: MIT
//
// The cores that this thread may use, which it may again when this is gone.
#pragma once

#include <sched.h>

#include <fstream>
#include <optional>
#include <string>
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
  // Two that are no threads of one core, as far as the machine is told; else any two.
  std::optional<std::pair<size_t, size_t>> two_apart() const {
    const std::vector<size_t> found = all();
    for (size_t i = 1; i < found.size(); i++)
      if (core_id(found[i]) != core_id(found[0])) return std::pair(found[0], found[i]);
    return two();
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
  // The same of threads of one core.
  static std::string core_id(size_t cpu) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string list;
    std::getline(file, list);
    return list;
  }
  static bool use(const cpu_set_t& cores) {
    return ::sched_setaffinity(0, sizeof cores, &cores) == 0;
  }

  cpu_set_t allowed_;
  bool known_ = false;
};

}  // namespace shadowprof::probe
