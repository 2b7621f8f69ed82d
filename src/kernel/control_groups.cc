// SPDX-License-Identifier: MIT
#include "kernel/control_groups.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace shadowprof::kernel {
namespace {

constexpr const char* kMount = "/sys/fs/cgroup";

// visit(folder) for the group and those that it is in. Of one outside our own namespace ("/../x")
// nothing is seen but where that begins.
template <typename Visit>
void visit_upwards(const std::string& mount, std::string group, Visit visit) {
  if (group.starts_with("/..")) group.clear();
  for (;;) {
    visit(mount + group);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

bool has_name(const std::string& controllers, std::string_view wanted) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

// visit(folder) for each group that may bound what `controller` is for.
template <typename Visit>
void visit_groups(std::string_view groups, const std::string& mount, const char* controller,
                  Visit visit) {
  std::istringstream lines{std::string(groups)};
  // Number, controllers (none in version 2), group.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) visit_upwards(mount, group, visit);
    if (!has_name(controllers, controller)) continue;
    visit_upwards(mount + "/" + controllers, group, visit);
    if (controllers != controller) visit_upwards(mount + "/" + controller, group, visit);
  }
}

// Nothing: there is no such file, or it says "max".
std::optional<int64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  int64_t number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

std::string groups_of(Tid process) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", process.value));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

bool has_processor_quota(std::string_view groups, const std::string& mount) {
  bool found = false;
  visit_groups(groups, mount, "cpu", [&](const std::string& folder) {
    found |= number_in(folder + "/cpu.max").has_value() ||
             number_in(folder + "/cpu.cfs_quota_us").value_or(-1) > 0;
  });
  return found;
}

std::optional<ThreadBound> thread_bound(std::string_view groups, const std::string& mount) {
  std::optional<ThreadBound> tightest;
  visit_groups(groups, mount, "pids", [&](const std::string& folder) {
    const auto most = number_in(folder + "/pids.max");
    const auto present = number_in(folder + "/pids.current");
    if (!most || !present || *most < 0 || *present < 0) return;
    const ThreadBound bound{static_cast<uint64_t>(*most), static_cast<uint64_t>(*present)};
    if (!tightest || bound.left() < tightest->left()) tightest = bound;
  });
  return tightest;
}

bool has_processor_quota(Tid process) { return has_processor_quota(groups_of(process), kMount); }

std::optional<ThreadBound> thread_bound(Tid process) {
  return thread_bound(groups_of(process), kMount);
}

}  // namespace shadowprof::kernel
