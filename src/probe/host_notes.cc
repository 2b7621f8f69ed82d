// SPDX-License-Identifier: MIT
#include "probe/host_notes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "probe/describe_host.h"

namespace shadowprof::probe {
namespace {

constexpr std::string_view kFirstLine = "shadowprof host notes 1\n";
constexpr std::string_view kLastLine = "end\n";
constexpr size_t kMostBytes = 4096;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// Only we can have written what is in it.
bool is_ours_alone(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

UniqueFd open_folder(const std::string& path) {
  ::mkdir(path.c_str(), 0700);
  UniqueFd fd(::open(path.c_str(), kFolderFlags));
  return fd.valid() && is_ours_alone(fd.get()) ? std::move(fd) : UniqueFd();
}

UniqueFd open_own_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string base;
  if (cache != nullptr && *cache == '/') {
    base = cache;
  } else if (home != nullptr && *home == '/') {
    base = std::string(home) + "/.cache";
  }
  if (base.empty() || !open_folder(base).valid()) return {};
  return open_folder(base + "/shadowprof");
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string identity_of_host() {
  const std::string boot = boot_id();
  if (boot.empty()) return {};
  const profile::Host host = describe_host();
  return fmt::format("boot {}\ncpu {}\nkernel {}\ncores {}\nversion {}\n", boot, host.cpu,
                     host.kernel, host.cores, SHADOWPROF_VERSION);
}

std::string read_whole(int fd) {
  std::array<char, kMostBytes> text;
  const ssize_t n = ::read(fd, text.data(), text.size());
  return n <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(n));
}

bool write_whole(int fd, std::string_view text) {
  return ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// A line for each; empty: one of them is none.
std::vector<double> parse_numbers(std::string_view lines) {
  std::vector<double> numbers;
  while (!lines.empty()) {
    double number = 0;
    const auto [end, error] = std::from_chars(lines.data(), lines.data() + lines.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return {};
    lines.remove_prefix(static_cast<size_t>(end - lines.data()));
    if (!lines.starts_with('\n')) return {};
    lines.remove_prefix(1);
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

HostNotes::HostNotes() : folder_(open_own_folder()), identity_(identity_of_host()) {
  if (identity_.empty()) folder_.reset();
}

HostNotes::HostNotes(const std::string& folder, std::string identity)
    : folder_(open_folder(folder)), identity_(std::move(identity)) {}

std::vector<double> HostNotes::load(std::string_view name) const {
  if (!folder_.valid()) return {};
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const UniqueFd fd(::openat(folder_.get(), std::string(name).c_str(), kFlags));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (!is_ours_alone(fd.get()) || info.st_size > static_cast<off_t>(kMostBytes)) return {};
  const std::string whole = read_whole(fd.get());
  std::string_view text = whole;
  const std::string head = std::string(kFirstLine) + identity_;
  if (!text.starts_with(head) || !text.ends_with(kLastLine)) return {};
  text.remove_prefix(head.size());
  if (text.size() < kLastLine.size()) return {};
  text.remove_suffix(kLastLine.size());
  return parse_numbers(text);
}

void HostNotes::store(std::string_view name, std::span<const double> numbers) const {
  if (!folder_.valid()) return;
  std::string text = std::string(kFirstLine) + identity_;
  for (const double number : numbers) text += fmt::format("{}\n", number);
  text += kLastLine;
  const std::string temporary = fmt::format(".{}.{}", name, ::getpid());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd fd(::openat(folder_.get(), temporary.c_str(), kFlags, 0600));
  if (!fd.valid()) return;
  const bool kept = write_whole(fd.get(), text) &&
                    ::renameat(folder_.get(), temporary.c_str(), folder_.get(),
                               std::string(name).c_str()) == 0;
  if (!kept) ::unlinkat(folder_.get(), temporary.c_str(), 0);
}

}  // namespace shadowprof::probe
