// SPDX-License-Identifier: MIT
//
// The file of a plug-in, opened once: what was looked at is what is loaded.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace shadowprof::plugin {

class PluginFile {
 public:
  // `path` is relative to the current folder, and never looked up elsewhere. An Error: there is no
  // such file, it is no shared object for this machine, or we are root and somebody else than root
  // and who has called sudo can have written it.
  static Result<PluginFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  PluginFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace shadowprof::plugin
