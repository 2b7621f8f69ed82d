// SPDX-License-Identifier: MIT
#include "report/source_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "base/unique_fd.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

constexpr int64_t kMostBytes = 16 << 20;
constexpr size_t kTabColumns = 8;

std::string without_tabs(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\t')
      result.append(kTabColumns - result.size() % kTabColumns, ' ');
    else if (c != '\r')
      result += c;
  }
  return printable(result);
}

}  // namespace

const SourceFiles::File& SourceFiles::file(const std::string& path) {
  const auto [entry, added] = files_.try_emplace(path);
  File& file = entry->second;
  if (!added || path.empty()) return file;
  auto opened = open_source(path, rules_);
  if (!opened) {
    if (opened.error().errno_value == 0) file.refusal = opened.error().message;
    return file;
  }
  const UniqueFd fd = std::move(*opened);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size > kMostBytes) return file;
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + have, text.size() - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  file.modified = info.st_mtim.tv_sec;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    file.lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return file;
}

std::optional<std::string> SourceFiles::line(const std::string& path, uint32_t number) {
  const auto& lines = lines_of(path);
  if (number == 0 || number > lines.size()) return std::nullopt;
  return without_tabs(lines[number - 1]);
}

int64_t SourceFiles::modified(const std::string& path) {
  return file(path).modified;
}

}  // namespace shadowprof::report
