// SPDX-License-Identifier: MIT
#include "kernel/fdinfo.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"

namespace shadowprof::kernel {

std::string read_fdinfo(Tid process, int fd, size_t most_bytes) {
  const UniqueFd file(
      ::open(fmt::format("/proc/{}/fdinfo/{}", process.value, fd).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 512> piece;
  while (text.size() < most_bytes) {
    const ssize_t n =
        ::read(file.get(), piece.data(), std::min(piece.size(), most_bytes - text.size()));
    if (n <= 0) break;
    text.append(piece.data(), static_cast<size_t>(n));
  }
  return text;
}

}  // namespace shadowprof::kernel
