// SPDX-License-Identifier: MIT
//
// Lines of source files on this host. Their names come out of debug information, so they may be
// anything: only regular files of a sane size are read, and what they hold is shown as text only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shadowprof::report {

class SourceFiles {
 public:
  // Printable, tabs as blanks. Nothing: the file cannot be read or has no such line (from 1).
  std::optional<std::string> line(const std::string& path, uint32_t number);
  bool readable(const std::string& path) { return !lines_of(path).empty(); }
  // When it was last written, seconds since 1970; 0 where it cannot be read.
  int64_t modified(const std::string& path);

 private:
  struct File {
    int64_t modified = 0;
    std::vector<std::string> lines;
  };
  const File& file(const std::string& path);
  const std::vector<std::string>& lines_of(const std::string& path) { return file(path).lines; }

  std::map<std::string, File> files_;
};

}  // namespace shadowprof::report
