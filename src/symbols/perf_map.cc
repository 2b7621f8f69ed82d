// SPDX-License-Identifier: MIT
#include "symbols/perf_map.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "kernel/proc.h"
#include "symbols/demangle.h"

namespace shadowprof::symbols {
namespace {

// A long-running JVM writes some ten megabytes.
constexpr size_t kMaxMapBytes = size_t{256} << 20;
constexpr size_t kMostNameBytes = 4096;

// Whole lines of at most so many bytes.
Result<std::string> read_lines(int fd, const std::string& path, size_t limit) {
  std::string text;
  while (text.size() < limit) {
    size_t filled = text.size();
    text.resize(filled + (size_t{1} << 16));
    ssize_t got = read(fd, text.data() + filled, text.size() - filled);
    if (got < 0) return fail_errno(errno, "cannot read {}", path);
    text.resize(filled + static_cast<size_t>(got));
    if (got == 0) return text;
  }
  text.resize(text.rfind('\n') + 1);
  return text;
}

// In its own namespace.
pid_t own_pid(pid_t pid) {
  const auto status = kernel::read_status(Tid(pid));
  return status && status->innermost_pid != Tid() ? status->innermost_pid.value : pid;
}

// Symbolic links on the way are resolved inside the process's root, never in ours.
UniqueFd open_in_root(int root, const std::string& relative) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_IN_ROOT;
  long fd = syscall(SYS_openat2, root, relative.c_str(), &how, sizeof(how));
  // Before Linux 5.6, and under some container runtimes' filters, there is no openat2.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
    fd = openat(root, relative.c_str(), static_cast<int>(how.flags));
  }
  return UniqueFd(static_cast<int>(fd));
}

bool parse_hex(std::string_view& line, uint64_t& value) {
  while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  if (line.starts_with("0x") || line.starts_with("0X")) line.remove_prefix(2);
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  if (error != std::errc()) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  return line.starts_with(' ') || line.starts_with('\t');
}

}  // namespace

Result<PerfMapPlace> PerfMapPlace::of(pid_t pid) {
  PerfMapPlace place;
  const std::string root = fmt::format("/proc/{}/root", pid);
  place.root_ = UniqueFd(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.root_.valid()) return fail_errno(errno, "cannot open {}", root);
  place.path_ = fmt::format("tmp/perf-{}.map", own_pid(pid));
  // /proc/PID belongs to the effective user of the process, to root if it is not dumpable
  // (proc(5)).
  struct stat process {};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0) {
    return fail_errno(errno, "process {} has ended", pid);
  }
  place.user_ = process.st_uid;
  return place;
}

Result<PerfMap> PerfMapPlace::load() const {
  const std::string path = "/" + path_;
  UniqueFd fd = open_in_root(root_.get(), path_);
  if (!fd.valid()) return fail_errno(errno, "cannot open {}", path);
  struct stat file {};
  if (fstat(fd.get(), &file) != 0) return fail_errno(errno, "cannot examine {}", path);
  if (!S_ISREG(file.st_mode)) return fail("{} is not a regular file", path);
  if (file.st_uid != user_) {
    return fail("ignoring {}: it belongs to user {}, not to the process's user {}", path,
                file.st_uid, user_);
  }
  SP_ASSIGN(std::string text, read_lines(fd.get(), path, kMaxMapBytes));
  return PerfMap::parse(std::move(text));
}

Result<PerfMap> PerfMap::load(pid_t pid) {
  SP_ASSIGN(const PerfMapPlace place, PerfMapPlace::of(pid));
  return place.load();
}

PerfMap PerfMap::parse(std::string text) {
  PerfMap map;
  map.text_ = std::move(text);
  std::string_view all = map.text_;
  std::vector<IndexedRange> ranges;
  for (size_t at = 0; at < all.size();) {
    std::string_view line = all.substr(at, all.find('\n', at) - at);
    at += line.size() + 1;
    uint64_t start = 0;
    uint64_t size = 0;
    if (!parse_hex(line, start) || !parse_hex(line, size)) continue;
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty() || size == 0 || start + size < start) continue;
    ranges.push_back({start, start + size, static_cast<uint32_t>(map.functions_.size())});
    map.functions_.push_back({start, size, static_cast<size_t>(line.data() - all.data()),
                              std::min(line.size(), kMostNameBytes)});
  }
  map.index_ = RangeIndex::last_wins(ranges);
  return map;
}

std::optional<Symbol> PerfMap::find(GuestAddr address) const {
  const IndexedRange* range = index_.find(address.value);
  if (range == nullptr) return std::nullopt;
  const Function& function = functions_[range->index];
  std::string name =
      printable(std::string_view(text_).substr(function.name_at, function.name_size));
  return Symbol{function.start, function.size, name, name};
}

}  // namespace shadowprof::symbols
