// SPDX-License-Identifier: MIT
#include "kernel/user_faults.h"

#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "base/numbered_entries.h"
#include "kernel/fdinfo.h"
#include "kernel/proc.h"

namespace shadowprof::kernel {
namespace {

constexpr uint64_t kEventFork = 1u << 1;  // UFFD_FEATURE_EVENT_FORK
constexpr std::string_view kLink = "anon_inode:[userfaultfd]";

}  // namespace

// "API:\t<version>:<features>:<ioctls>", each in hexadecimal (fs/userfaultfd.c,
// userfaultfd_show_fdinfo).
std::optional<UserFaults> parse_user_faults(std::string_view fdinfo) {
  constexpr std::string_view kKey = "API:\t";
  const size_t line = fdinfo.find(kKey);
  if (line == fdinfo.npos || (line != 0 && fdinfo[line - 1] != '\n')) return std::nullopt;
  const size_t colon = fdinfo.find(':', line + kKey.size());
  if (colon == fdinfo.npos) return std::nullopt;
  uint64_t features = 0;
  const char* const end = fdinfo.data() + fdinfo.size();
  const auto [after, wrong] = std::from_chars(fdinfo.data() + colon + 1, end, features, 16);
  if (wrong != std::errc() || after == end || *after != ':') return std::nullopt;
  return UserFaults{true, (features & kEventFork) != 0};
}

UserFaults user_faults_of(Tid process, int fd) {
  std::array<char, 64> link;
  const ssize_t length = ::readlink(fmt::format("/proc/{}/fd/{}", process.value, fd).c_str(),
                                    link.data(), link.size());
  if (length < 0 || std::string_view(link.data(), static_cast<size_t>(length)) != kLink) return {};
  constexpr size_t kMostBytes = 512;
  const auto known = parse_user_faults(read_fdinfo(process, fd, kMostBytes));
  // Whatever it may be, it is one.
  return known.value_or(UserFaults{true, true});
}

UserFaults read_user_faults(Tid process) {
  UserFaults all;
  const auto descriptors = numbered_entries(fmt::format("/proc/{}/fd", process.value));
  for (const int fd : descriptors.value_or(std::vector<int>{})) {
    const UserFaults one = user_faults_of(process, fd);
    all.any |= one.any;
    all.of_forks |= one.of_forks;
  }
  return all;
}

UserFaults user_faults_of_other_tables(Tid process) {
  constexpr size_t kMostThreads = 512;
  UserFaults all;
  const auto threads = list_threads(process);
  if (!threads) return all;
  for (size_t i = 0; i < std::min(threads->size(), kMostThreads); i++) {
    const Tid thread = (*threads)[i];
    const bool has_own =
        thread != process &&
        ::syscall(SYS_kcmp, process.value, thread.value, KCMP_FILES, 0, 0) > 0;
    if (!has_own) continue;
    const UserFaults one = read_user_faults(thread);
    all.any |= one.any;
    all.of_forks |= one.of_forks;
  }
  return all;
}

}  // namespace shadowprof::kernel
