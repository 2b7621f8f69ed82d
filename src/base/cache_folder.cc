// SPDX-License-Identifier: MIT
#include "base/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace shadowprof {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// Only we can have written what is in it.
bool is_ours_alone(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

UniqueFd open_folder(int in, const std::string& path) {
  ::mkdirat(in, path.c_str(), 0700);
  UniqueFd fd(::openat(in, path.c_str(), kFolderFlags));
  struct stat info {};
  const bool ours = fd.valid() && ::fstat(fd.get(), &info) == 0 && is_ours_alone(info);
  return ours ? std::move(fd) : UniqueFd();
}

// Up to `size` bytes.
std::string read_whole(int fd, size_t size) {
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

uint32_t checksum(std::string_view text) {
  return static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

struct CloseDirectory {
  void operator()(DIR* d) const { ::closedir(d); }
};

}  // namespace

CacheFolder CacheFolder::of_user() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string base;
  if (cache != nullptr && *cache == '/') {
    base = cache;
  } else if (home != nullptr && *home == '/') {
    base = std::string(home) + "/.cache";
  }
  return base.empty() ? CacheFolder() : at(base).inside("shadowprof");
}

CacheFolder CacheFolder::at(const std::string& path) {
  return CacheFolder(open_folder(AT_FDCWD, path));
}

CacheFolder CacheFolder::inside(const std::string& name) const {
  return valid() ? CacheFolder(open_folder(fd_.get(), name)) : CacheFolder();
}

std::optional<std::string> CacheFolder::read(const std::string& name, size_t most_bytes) const {
  if (!valid()) return std::nullopt;
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const UniqueFd fd(::openat(fd_.get(), name.c_str(), kFlags));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (!is_ours_alone(info) || info.st_size > static_cast<off_t>(most_bytes)) return std::nullopt;
  return read_whole(fd.get(), static_cast<size_t>(info.st_size));
}

void CacheFolder::write(const std::string& name, std::string_view text) const {
  if (!valid()) return;
  const std::string temporary = fmt::format(".{}.{}", name, ::getpid());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd fd(::openat(fd_.get(), temporary.c_str(), kFlags, 0600));
  if (!fd.valid()) return;
  const bool kept = write_whole(fd.get(), text) &&
                    ::renameat(fd_.get(), temporary.c_str(), fd_.get(), name.c_str()) == 0;
  if (!kept) ::unlinkat(fd_.get(), temporary.c_str(), 0);
}

std::optional<std::string> CacheFolder::read_body(const std::string& name, std::string_view head,
                                                  size_t most_bytes) const {
  std::optional<std::string> text = read(name, most_bytes);
  if (!text || text->size() < head.size() + kChecksumBytes || !text->starts_with(head))
    return std::nullopt;
  const size_t end = text->size() - kChecksumBytes;
  uint32_t sum = 0;
  std::memcpy(&sum, &(*text)[end], kChecksumBytes);
  text->resize(end);
  if (checksum(*text) != sum) return std::nullopt;
  text->erase(0, head.size());
  return text;
}

void CacheFolder::write_body(const std::string& name, std::string_view head,
                             std::string_view body) const {
  std::string text(head);
  text += body;
  const uint32_t sum = checksum(text);
  write(name, text.append(reinterpret_cast<const char*>(&sum), kChecksumBytes));
}

void CacheFolder::remove(const std::string& name) const {
  if (valid()) ::unlinkat(fd_.get(), name.c_str(), 0);
}

void CacheFolder::keep_latest(size_t most_files, size_t most_bytes) const {
  const int fd = valid() ? ::openat(fd_.get(), ".", kFolderFlags) : -1;
  const std::unique_ptr<DIR, CloseDirectory> directory(fd < 0 ? nullptr : ::fdopendir(fd));
  if (directory == nullptr) return;
  struct File {
    std::pair<time_t, long> written;
    std::string name;
    size_t bytes;
  };
  std::vector<File> files;
  while (const dirent* entry = ::readdir(directory.get())) {
    struct stat info {};
    if (::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
      files.push_back({{info.st_mtim.tv_sec, info.st_mtim.tv_nsec},
                       entry->d_name,
                       static_cast<size_t>(info.st_size)});
  }
  std::ranges::sort(files, std::greater(),
                    [](const File& f) { return std::tie(f.written, f.name); });
  size_t bytes = 0;
  for (size_t i = 0; i < files.size(); i++) {
    bytes += files[i].bytes;
    if (i >= most_files || bytes > most_bytes) ::unlinkat(fd_.get(), files[i].name.c_str(), 0);
  }
}

}  // namespace shadowprof
