// SPDX-License-Identifier: MIT
#include "kernel/processor_quota.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <sstream>

namespace shadowprof::kernel {
namespace {

bool bounds_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  return (file >> quota) && quota != "max";
}

bool bounds_v1(const std::string& folder) {
  std::ifstream file(folder + "/cpu.cfs_quota_us");
  int64_t quota = 0;
  return (file >> quota) && quota > 0;
}

// The group and those that it is in. Of one outside our own namespace ("/../x") nothing is seen but
// where that begins.
template <typename Bounds>
bool any_bounds(const std::string& mount, std::string group, Bounds bounds) {
  if (group.starts_with("/..")) group.clear();
  for (;;) {
    if (bounds(mount + group)) return true;
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return false;
    group.resize(slash);
  }
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

bool has_processor_quota(std::string_view groups, const std::string& mount) {
  std::istringstream lines{std::string(groups)};
  // Number, controllers (none in version 2), group.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty() && any_bounds(mount, group, bounds_v2)) return true;
    if (names_cpu(controllers) && (any_bounds(mount + "/" + controllers, group, bounds_v1) ||
                                   any_bounds(mount + "/cpu", group, bounds_v1))) {
      return true;
    }
  }
  return false;
}

bool has_processor_quota(Tid process) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", process.value));
  std::ostringstream text;
  text << file.rdbuf();
  return has_processor_quota(text.str(), "/sys/fs/cgroup");
}

}  // namespace shadowprof::kernel
