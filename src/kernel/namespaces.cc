// SPDX-License-Identifier: MIT
#include "kernel/namespaces.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <string>

namespace shadowprof::kernel {
namespace {

std::optional<ino_t> number_of_namespace(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

}  // namespace

std::optional<ino_t> pid_namespace_of(Tid process) {
  return number_of_namespace(fmt::format("/proc/{}/ns/pid", process.value));
}

// A PID namespace without a process has no file yet; kernels without namespaces of a kind have none
// at all.
bool has_namespaces_for_children(Tid process, Tid thread) {
  const std::string folder = fmt::format("/proc/{}/task/{}/ns/", process.value, thread.value);
  for (const char* kind : {"pid", "time"}) {
    const auto own = number_of_namespace(folder + kind);
    if (own && own != number_of_namespace(folder + kind + "_for_children")) return true;
  }
  return false;
}

}  // namespace shadowprof::kernel
