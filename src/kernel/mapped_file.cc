// SPDX-License-Identifier: MIT
#include "kernel/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace shadowprof::kernel {
namespace {

bool leads_to(const std::string& path, const Mapping& mapping) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_ino == mapping.inode && major(info.st_dev) == mapping.dev_major &&
         minor(info.st_dev) == mapping.dev_minor;
}

bool is_regular(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

UniqueFd open_to_read(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

}  // namespace

UniqueFd open_unreachable(Tid process, const Mapping& mapping) {
  if (mapping.inode == 0 || !mapping.path.starts_with('/')) return {};
  if (leads_to(mapping.path, mapping)) return {};
  const std::string mapped = fmt::format("/proc/{}/map_files/{:x}-{:x}", process.value,
                                         mapping.range.start.value, mapping.range.end.value);
  if (is_regular(mapped)) return open_to_read(mapped);
  const std::string inside = fmt::format("/proc/{}/root{}", process.value, mapping.path);
  return leads_to(inside, mapping) ? open_to_read(inside) : UniqueFd{};
}

}  // namespace shadowprof::kernel
