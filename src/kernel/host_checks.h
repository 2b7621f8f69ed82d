// SPDX-License-Identifier: MIT
//
// What this host's settings mean for profiling. Unlike features (features.h), none of these is
// needed: each says what is slower, less exact, or forbidden to other users.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shadowprof::kernel {

struct HostCheck {
  std::string_view name;  // short and stable
  bool good = false;
  std::string finding;  // what is, in a few words
  std::string advice;   // where it is not good: what that costs, and what helps
};

// Each takes the text of the file that it judges, so that every answer can be tested.
HostCheck check_ptrace_scope(std::string_view text, bool privileged);  // "" when there is no Yama
HostCheck check_overcommit(std::string_view text);
HostCheck check_cpu(std::string_view cpuinfo);  // /proc/cpuinfo
HostCheck check_cores(unsigned usable);
HostCheck check_space(std::string_view directory, uint64_t free_bytes, bool writable);

// All of them, of this host; `directory` is where a profile would be written.
std::vector<HostCheck> check_host(const std::string& directory);

}  // namespace shadowprof::kernel
