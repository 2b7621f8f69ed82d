// SPDX-License-Identifier: MIT
#include "kernel/direct_reads.h"

#include <fcntl.h>
#include <sys/utsname.h>

#include <charconv>
#include <utility>

namespace shadowprof::kernel {

bool forks_lose_direct_reads(std::string_view release) {
  constexpr std::pair kSince{6, 5};
  std::pair version{0, 0};
  const char* end = release.data() + release.size();
  const auto [dot, problem] = std::from_chars(release.data(), end, version.first);
  if (problem != std::errc() || dot == end || *dot != '.') return true;
  if (std::from_chars(dot + 1, end, version.second).ec != std::errc()) return true;
  return version < kSince;
}

bool forks_lose_direct_reads() {
  static const bool kLose = [] {
    utsname name{};
    return ::uname(&name) != 0 || forks_lose_direct_reads(name.release);
  }();
  return kLose;
}

bool is_opened_for_direct_reads(std::string_view fdinfo) {
  constexpr std::string_view kKey = "flags:\t";
  const size_t at = fdinfo.find(kKey);
  if (at == std::string_view::npos) return false;
  unsigned flags = 0;
  const char* begin = fdinfo.data() + at + kKey.size();
  std::from_chars(begin, fdinfo.data() + fdinfo.size(), flags, 8);
  return (flags & O_DIRECT) != 0;
}

}  // namespace shadowprof::kernel
