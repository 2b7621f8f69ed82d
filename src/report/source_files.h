// SPDX-License-Identifier: MIT
//
// Lines of source files on this host. Their names come out of debug information, so they may be
// anything: only what source_access.h allows and is of a sane size is read, and what it holds is
// shown as text only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/source_access.h"

namespace shadowprof::report {

class SourceFiles {
 public:
  explicit SourceFiles(SourceRules rules = {}) : rules_(std::move(rules)) {}
  // Printable, tabs as blanks. Nothing: the file cannot be read or has no such line (from 1).
  std::optional<std::string> line(const std::string& path, uint32_t number);
  bool readable(const std::string& path) { return !lines_of(path).empty(); }
  // When it was last written, seconds since 1970; 0 where it cannot be read.
  int64_t modified(const std::string& path);
  // Why a file that is there was not read; "" otherwise.
  const std::string& refusal(const std::string& path) { return file(path).refusal; }

 private:
  struct File {
    int64_t modified = 0;
    std::vector<std::string> lines;
    std::string refusal;
  };
  const File& file(const std::string& path);
  const std::vector<std::string>& lines_of(const std::string& path) { return file(path).lines; }

  SourceRules rules_;
  std::map<std::string, File> files_;
};

}  // namespace shadowprof::report
