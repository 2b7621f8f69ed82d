// SPDX-License-Identifier: MIT
#include "shadow/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/unique_fd.h"

namespace shadowprof::shadow {
namespace {

constexpr long kCloseRange = 436;

std::vector<int> list_descriptors(Tid process) {
  std::vector<int> all;
  DIR* directory = ::opendir(fmt::format("/proc/{}/fd", process.value).c_str());
  if (!directory) return all;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (wrong == std::errc() && end == name.data() + name.size()) all.push_back(fd);
  }
  ::closedir(directory);
  std::sort(all.begin(), all.end());
  return all;
}

// Of /proc/PID/fdinfo/N; nothing if the file is locked: a lock of the open file would live on in
// the replica (proc(5), flock(2)).
std::optional<OpenFile> read_fdinfo(Tid process, int fd) {
  const UniqueFd file(
      ::open(fmt::format("/proc/{}/fdinfo/{}", process.value, fd).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 2048> bytes;
  const ssize_t n = ::read(file.get(), bytes.data(), bytes.size());
  if (n <= 0) return std::nullopt;
  const std::string_view text(bytes.data(), static_cast<size_t>(n));
  if (text.find("FLOCK") != text.npos || text.find("OFDLCK") != text.npos) return std::nullopt;
  OpenFile open_file;
  unsigned flags = 0;
  const auto number = [&](std::string_view key, int base, auto& value) {
    const size_t at = text.find(key);
    if (at == text.npos) return;
    const size_t first = text.find_first_not_of(" \t", at + key.size());
    if (first != text.npos)
      std::from_chars(text.data() + first, text.data() + text.size(), value, base);
  };
  number("pos:", 10, open_file.offset);
  number("flags:", 8, flags);
  open_file.appends = (flags & O_APPEND) != 0;
  return open_file;
}

}  // namespace

Descriptors Descriptors::of(Tid process) {
  Descriptors descriptors;
  descriptors.all_ = list_descriptors(process);
  if (descriptors.all_.size() > kMostKept) {
    descriptors.missing_ = descriptors.all_;
    return descriptors;
  }
  for (int fd : descriptors.all_) {
    struct stat status;
    const bool known =
        ::stat(fmt::format("/proc/{}/fd/{}", process.value, fd).c_str(), &status) == 0;
    if (known && S_ISDIR(status.st_mode)) continue;
    const auto file = known && S_ISREG(status.st_mode) ? read_fdinfo(process, fd) : std::nullopt;
    if (file) {
      descriptors.files_[fd] = std::make_shared<OpenFile>(*file);
    } else {
      descriptors.missing_.push_back(fd);
    }
  }
  return descriptors;
}

Status Descriptors::close_others(ptrace::RemoteSyscalls& remote) const {
  // Runs of numbers with nothing in between that is kept.
  for (size_t i = 0; i < missing_.size();) {
    const auto first = std::lower_bound(all_.begin(), all_.end(), missing_[i]);
    size_t n = 1;
    while (i + n < missing_.size() && first[static_cast<ptrdiff_t>(n)] == missing_[i + n]) n++;
    SP_ASSIGN(const int64_t answer, remote.call(kCloseRange, missing_[i], missing_[i + n - 1], 0));
    if (answer < 0) return fail_errno(static_cast<int>(-answer), "close_range in a replica");
    i += n;
  }
  return {};
}

OpenFile* Descriptors::find(int fd) {
  const auto it = files_.find(fd);
  return it == files_.end() ? nullptr : it->second.get();
}

bool Descriptors::was_closed_by_us(int fd) const {
  return std::binary_search(missing_.begin(), missing_.end(), fd);
}

int Descriptors::lowest_free() const {
  int fd = 0;
  for (int used : all_) {
    if (used != fd) break;
    fd++;
  }
  return fd;
}

void Descriptors::opened(int fd, bool regular, bool appends) {
  closed(fd);
  all_.insert(std::lower_bound(all_.begin(), all_.end(), fd), fd);
  if (regular) files_[fd] = std::make_shared<OpenFile>(OpenFile{0, appends});
}

void Descriptors::duplicated(int from, int to) {
  if (from == to) return;
  opened(to, false, false);
  if (const auto it = files_.find(from); it != files_.end()) files_[to] = it->second;
}

void Descriptors::closed(int fd) {
  files_.erase(fd);
  std::erase(all_, fd);
  std::erase(missing_, fd);
}

}  // namespace shadowprof::shadow
