// SPDX-License-Identifier: MIT
#include "base/numbered_entries.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>

namespace shadowprof {

std::optional<std::vector<int>> numbered_entries(const std::string& folder) {
  const auto close = [](DIR* directory) { ::closedir(directory); };
  const std::unique_ptr<DIR, decltype(close)> directory(::opendir(folder.c_str()), close);
  if (directory == nullptr) return std::nullopt;
  std::vector<int> all;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    const char* const last = name.data() + name.size();
    int number = -1;
    const auto [end, wrong] = std::from_chars(name.data(), last, number);
    if (wrong == std::errc() && end == last && number >= 0) all.push_back(number);
  }
  if (errno != 0) return std::nullopt;
  if (folder == "/proc/self/fd") std::erase(all, ::dirfd(directory.get()));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace shadowprof
