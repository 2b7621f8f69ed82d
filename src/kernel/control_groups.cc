// SPDX-License-Identifier: MIT
#include "kernel/control_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

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

// In a file of lines "name number".
std::optional<int64_t> number_after(std::string_view wanted, const std::string& file) {
  std::ifstream in(file);
  std::string name;
  for (int64_t number = 0; in >> name >> number;) {
    if (name == wanted) return number;
  }
  return std::nullopt;
}

// By a group in which there is such a bound.
void tighten(std::optional<Bound>& tightest, std::optional<int64_t> most,
             std::optional<int64_t> present) {
  if (!most || !present || *most < 0 || *present < 0) return;
  const Bound bound{static_cast<uint64_t>(*most), static_cast<uint64_t>(*present)};
  if (!tightest || bound.left() < tightest->left()) tightest = bound;
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

std::optional<Bound> thread_bound(std::string_view groups, const std::string& mount) {
  std::optional<Bound> tightest;
  visit_groups(groups, mount, "pids", [&](const std::string& folder) {
    tighten(tightest, number_in(folder + "/pids.max"), number_in(folder + "/pids.current"));
  });
  return tightest;
}

std::optional<Bound> memory_bound(std::string_view groups, const std::string& mount) {
  std::optional<Bound> tightest;
  visit_groups(groups, mount, "memory", [&](const std::string& folder) {
    std::error_code problem;
    const bool is_second = std::filesystem::exists(folder + "/memory.current", problem);
    const auto most = number_in(folder + (is_second ? "/memory.max" : "/memory.limit_in_bytes"));
    if (!most) return;  // the kernel adds up all processors' counts when it is asked for the others
    const auto all = number_in(folder + (is_second ? "/memory.current" : "/memory.usage_in_bytes"));
    const auto idle = number_after("inactive_file", folder + "/memory.stat");
    tighten(tightest, most,
            all ? std::optional(std::max<int64_t>(0, *all - idle.value_or(0))) : all);
  });
  return tightest;
}

bool has_processor_quota(Tid process) { return has_processor_quota(groups_of(process), kMount); }

std::optional<Bound> thread_bound(Tid process) { return thread_bound(groups_of(process), kMount); }

std::optional<Bound> memory_bound(Tid process) { return memory_bound(groups_of(process), kMount); }

}  // namespace shadowprof::kernel
